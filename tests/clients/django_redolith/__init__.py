"""Makes PyMySQL the driver that Django's MySQL backend imports."""

import pymysql

pymysql.install_as_MySQLdb()
