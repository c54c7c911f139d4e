"""E-mail domains at which anybody can have an address: a lead from there says nothing about a company.

Compiled by hand from what is commonly known, and meant to be corrected: each rule book adds domains and excepts others.
"""

_LIST = """
163.com 126.com yeah.net sina.com sina.cn sohu.com qq.com foxmail.com aliyun.com 139.com 189.cn 21cn.com tom.com
1and1.com abv.bg aim.com alice.it aol.co.uk aol.com aol.de aol.fr arcor.de atlas.cz att.net azet.sk bellsouth.net
bigpond.com bigpond.net.au blueyonder.co.uk bluewin.ch bol.com.br btinternet.com btopenworld.com centrum.cz
centrum.sk charter.net comcast.net cox.net daum.net duck.com earthlink.net email.cz email.com email.de excite.com
fastmail.com fastmail.fm free.fr freemail.hu freenet.de frontier.com gmail.com gmx.at gmx.ch gmx.com gmx.de gmx.fr
gmx.net googlemail.com hanmail.net hey.com home.nl hotmail.be hotmail.ca hotmail.ch hotmail.co.jp hotmail.co.uk
hotmail.com hotmail.com.ar hotmail.com.br hotmail.de hotmail.es hotmail.fr hotmail.it hotmail.nl hotmail.se
hush.com hushmail.com icloud.com ig.com.br inbox.com inbox.lv inbox.ru inode.at interia.pl iol.pt juno.com
kpnmail.nl laposte.net libero.it list.ru live.at live.be live.ca live.ch live.cn live.co.uk live.com live.com.au
live.com.mx live.com.pt live.de live.dk live.fr live.ie live.it live.jp live.nl live.no live.se lycos.com mac.com
mail.bg mail.com mail.ee mail.de mail.ru mailbox.org mailfence.com mailo.com me.com msn.com mynet.com naver.com
nate.com neuf.fr netcourrier.com netscape.net netzero.net ntlworld.com numericable.fr o2.co.uk o2.pl online.de
online.no onet.eu onet.pl optimum.net optonline.net optusnet.com.au orange.fr outlook.at outlook.be outlook.co.id
outlook.com outlook.com.au outlook.com.br outlook.de outlook.dk outlook.es outlook.fr outlook.ie outlook.in
outlook.it outlook.jp outlook.kr outlook.pt outlook.sa pacbell.net planet.nl pm.me poczta.fm poczta.onet.pl
post.cz posteo.de proton.me protonmail.ch protonmail.com ptd.net r7.com rambler.ru rediffmail.com rocketmail.com
rogers.com runbox.com sapo.pt sbcglobal.net seznam.cz sfr.fr shaw.ca sky.com skynet.be startmail.com sympatico.ca
t-online.de talktalk.net teletu.it telenet.be telia.com telus.net terra.com.br tin.it tiscali.co.uk tiscali.it
tuta.com tuta.io tutanota.com tutanota.de tutamail.com ukr.net uol.com.br verizon.net videotron.ca vip.qq.com
virgilio.it virgin.net virginmedia.com vodafone.de vodafone.it voila.fr volny.cz wanadoo.es wanadoo.fr web.de
windowslive.com windstream.net wp.pl xs4all.nl xtra.co.nz ya.ru yahoo.ca yahoo.cn yahoo.co.id yahoo.co.in
yahoo.co.jp yahoo.co.kr yahoo.co.nz yahoo.co.th yahoo.co.uk yahoo.co.za yahoo.com yahoo.com.ar yahoo.com.au
yahoo.com.br yahoo.com.cn yahoo.com.co yahoo.com.hk yahoo.com.mx yahoo.com.my yahoo.com.ph yahoo.com.sg
yahoo.com.tr yahoo.com.tw yahoo.com.vn yahoo.de yahoo.dk yahoo.es yahoo.fr yahoo.gr yahoo.ie yahoo.in yahoo.it
yahoo.nl yahoo.no yahoo.pl yahoo.ro yahoo.se yandex.by yandex.com yandex.kz yandex.ru yandex.ua ymail.com
ziggo.nl zoho.com zohomail.com zohomail.eu zonnet.nl
"""
FREE_MAIL = frozenset(_LIST.split())
