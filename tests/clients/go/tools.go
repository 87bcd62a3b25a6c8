// Package clients names the modules whose tests run on the server.
package clients

import _ "github.com/go-sql-driver/mysql"
