// Follows a server's binary log with mysql-binlog-connector-java, the library under Debezium, from
// the position of a snapshot on: Reader HOST PORT FILE POSITION. The snapshot's rows come from
// stdin, and the rows of all tables go to stdout when the table sbtest.finish is made. A row is a
// line: schema, table and values, with tabs between; a value is NULL or the bytes of its text in
// hex.

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.*;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import java.io.*;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.*;
import java.time.format.DateTimeFormatter;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import java.util.regex.*;

public class Reader {
    static final Map<String, Map<String, Integer>> tables = new TreeMap<>();
    static final Map<Long, String> maps = new HashMap<>();
    static final CountDownLatch finished = new CountDownLatch(1);
    static final String NAME = "(?:IF EXISTS )?(?:`?(\\w+)`?\\.)?`?(\\w+)`?";
    static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSS");
    static volatile String failure;
    static int changes;

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", 3);
            var bag = tables.computeIfAbsent(parts[0] + "." + parts[1], k -> new HashMap<>());
            if (parts.length == 3) bag.merge(parts[2], 1, Integer::sum);
        }
        var client = new BinaryLogClient(args[0], Integer.parseInt(args[1]), "root", "");
        var deserializer = new EventDeserializer();
        deserializer.setCompatibilityMode(
            EventDeserializer.CompatibilityMode.DATE_AND_TIME_AS_LONG,
            EventDeserializer.CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY);
        client.setEventDeserializer(deserializer);
        client.setServerId(98);
        client.setBinlogFilename(args[2]);
        client.setBinlogPosition(Long.parseLong(args[3]));
        client.setKeepAliveInterval(200);
        client.setHeartbeatInterval(100);
        client.registerEventListener(event -> {
            try {
                apply(event);
            } catch (RuntimeException e) {
                failure = e.toString();
                finished.countDown();
            }
        });
        client.connect(30_000);
        finished.await();
        client.disconnect();
        if (failure != null) {
            System.err.println(failure);
            System.exit(1);
        }
        var out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        for (var table : tables.entrySet()) {
            String name = table.getKey().replace('.', '\t');
            out.println(name);
            for (var row : table.getValue().entrySet()) {
                for (int n = 0; n < row.getValue(); n++) out.println(name + "\t" + row.getKey());
            }
        }
        out.flush();
        System.err.println(changes + " changes");
        System.exit(0);
    }

    static void apply(Event event) {
        EventData data = event.getData();
        if (data instanceof TableMapEventData map) {
            maps.put(map.getTableId(), map.getDatabase() + "." + map.getTable());
        } else if (data instanceof WriteRowsEventData rows) {
            rows.getRows().forEach(row -> add(rows.getTableId(), row));
        } else if (data instanceof DeleteRowsEventData rows) {
            rows.getRows().forEach(row -> remove(rows.getTableId(), row));
        } else if (data instanceof UpdateRowsEventData rows) {
            for (var row : rows.getRows()) {
                remove(rows.getTableId(), row.getKey());
                add(rows.getTableId(), row.getValue());
            }
        } else if (data instanceof QueryEventData query && !query.getSql().equals("BEGIN")) {
            define(query.getDatabase(), query.getSql());
        }
    }

    static void add(long table, Serializable[] row) {
        changes++;
        tables.get(maps.get(table)).merge(text(row), 1, Integer::sum);
    }

    static void remove(long table, Serializable[] row) {
        changes++;
        var bag = tables.get(maps.get(table));
        String text = text(row);
        if (!bag.containsKey(text)) {
            throw new IllegalStateException(maps.get(table) + " has no " + text);
        }
        bag.computeIfPresent(text, (k, n) -> n == 1 ? null : n - 1);
    }

    static String text(Serializable[] row) {
        var values = new StringJoiner("\t");
        for (Serializable value : row) values.add(value == null ? "NULL" : hex(bytes(value)));
        return values.toString();
    }

    static byte[] bytes(Serializable value) {
        if (value instanceof byte[] bytes) return bytes;
        String text = value.toString();
        if (value instanceof BigDecimal decimal) text = decimal.toPlainString();
        if (value instanceof Long ms) {
            text = LocalDateTime.ofInstant(Instant.ofEpochMilli(ms), ZoneOffset.UTC).format(TIME);
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    static Matcher match(String pattern, String text) {
        int flags = Pattern.CASE_INSENSITIVE | Pattern.DOTALL;
        var found = Pattern.compile(pattern.replace("NAME", NAME), flags).matcher(text);
        return found.lookingAt() ? found : null;
    }

    static String name(Matcher found, int group, String schema) {
        String named = found.group(group);
        return (named == null ? schema : named) + "." + found.group(group + 1);
    }

    static void define(String schema, String text) {
        Matcher found;
        if ((found = match("CREATE TABLE NAME", text)) != null) {
            tables.put(name(found, 1, schema), new HashMap<>());
        } else if ((found = match("TRUNCATE TABLE NAME", text)) != null) {
            tables.get(name(found, 1, schema)).clear();
        } else if ((found = match("DROP TABLE NAME", text)) != null) {
            tables.remove(name(found, 1, schema));
        } else if ((found = match("RENAME TABLE ", text)) != null) {
            for (String step : text.substring(found.end()).split(",")) {
                found = match("NAME TO NAME", step.trim());
                tables.put(name(found, 3, schema), tables.remove(name(found, 1, schema)));
            }
        }
        if (tables.containsKey("sbtest.finish")) finished.countDown();
    }
}
