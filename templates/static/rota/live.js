// Fetch the home page's numbers again every few seconds, while somebody looks and the box is ticked.
"use strict";
{
    const EVERY_MS = 3000;
    const numbers = document.getElementById("numbers");
    const on = document.getElementById("live-on");
    const says = document.getElementById("live-says");
    const remembered = () => { try { return localStorage.getItem("rota.live"); } catch { return null; } };
    let timer = 0;
    let failed = 0;

    // A focused link keeps the focus: its successor has the same address.
    const put = (html) => {
        const focused = numbers.contains(document.activeElement) && document.activeElement.getAttribute("href");
        numbers.innerHTML = html;
        if (focused) {
            [...numbers.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
        }
    };

    const ask = async () => {
        try {
            const answer = await fetch(numbers.dataset.from, {redirect: "error", headers: {Accept: "text/html"}});
            if (!answer.ok) {
                throw new Error(answer.status);
            }
            put(await answer.text());
            failed = 0;
            says.textContent = "";
        } catch {
            failed += 1;
            says.textContent = "Not updated: reload the page to log in again, or wait.";
        }
        plan();
    };

    const plan = () => {
        clearTimeout(timer);
        if (on.checked && document.visibilityState === "visible") {
            timer = setTimeout(ask, EVERY_MS * Math.min(10, 1 + failed));
        }
    };

    on.checked = remembered() !== "off";
    on.addEventListener("change", () => {
        try { localStorage.setItem("rota.live", on.checked ? "on" : "off"); } catch { /* not remembered, then */ }
        plan();
    });
    document.addEventListener("visibilitychange", plan);
    document.getElementById("live").hidden = false;
    plan();
}
