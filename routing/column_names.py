"""What columns of leads are called: by webinar tools, LinkedIn, Meta, HubSpot, Salesforce reports and Outlook, and in
German, French, Spanish, Italian, Portuguese, Dutch, Polish, Swedish, Czech, Japanese, Chinese and Russian.

By field of the lead, best first: where two columns of a file have names of one field, the one that stands first here is
the field. Written as `columns.plain` compares them.
"""

NAMES = {
    "email": """
        email, email address, e mail, e mail address, work email, business email, company email, professional
        email, work email address, business email address, mail, user email, user email address, email 1, e
        mail 1 value, primary email, emailaddress, adresse email, adresse e mail, adresse mail, courriel, e
        mail adresse, email adresse, mailadresse, correo, correo electronico, direccion de correo electronico,
        indirizzo email, indirizzo e mail, posta elettronica, endereco de email, endereco de e mail, e
        mailadres, emailadres, adres email, adres e mail, e post, epost, e postadress, e mailova adresa,
        メールアドレス, 电子邮件, 邮箱, эл почта, электронная почта""",
    "first_name": """
        first name, firstname, given name, forename, first, fname, vorname, prenom, nombre, nombres, nome,
        primeiro nome, voornaam, imie, fornamn, jmeno, 名, имя""",
    "last_name": """
        last name, lastname, surname, family name, last, lname, nachname, familienname, nom, nom de famille,
        apellido, apellidos, cognome, sobrenome, apelido, achternaam, nazwisko, efternamn, prijmeni, 姓,
        фамилия""",
    "full_name": """
        full name, fullname, name, your name, user name, user name original name, name original name, display
        name, vollstandiger name, nom complet, nombre completo, nome completo, nome e cognome, volledige naam,
        naam, namn, imie i nazwisko, cele jmeno, 氏名, 姓名, фио""",
    "company": """
        company, company name, organization, organisation, organization name, organisation name, account,
        account name, company account, associated company, associated company name, primary associated
        company, employer, business name, firma, firmenname, unternehmen, societe, entreprise, empresa, nombre
        de la empresa, azienda, societa, bedrijf, bedrijfsnaam, foretag, spolecnost, 会社名, 公司, компания""",
    "phone": """
        phone, phone number, work phone, work phone number, business phone, mobile, mobile phone, mobile phone
        number, mobile number, cell phone, telephone, telephone number, tel, phone 1 value, primary phone,
        phonenumber, telefon, telefonnummer, mobil, handy, rufnummer, numero de telephone, telephone portable,
        telefono, numero de telefono, movil, celular, cellulare, telefone, telefoon, telefoonnummer, numer
        telefonu, 電話番号, 电话, телефон""",
    "country": """
        country, country region, country region name, country name, country code, mailing country, billing
        country, ip country, land, pays, pais, paese, kraj, zeme, 国, 国家, страна""",
}
