import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.http.HttpConfig;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.security.SecurityUtil;
import org.apache.hadoop.yarn.conf.HAUtil;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * Prints as JSON what Hadoop reads in each folder below a folder: java SiteFiles FOLDER NAME...
 * NAME are properties whose defaults are shown as well.
 */
public class SiteFiles {
  private static final String[] CLIENT = {"core-default", "core-site", "mapred-default", "mapred-site", "yarn-default",
    "yarn-site", "hdfs-default", "hdfs-site"};
  private static final String[] MANAGER = {"core-default", "yarn-default", "yarn-site", "core-site", "yarn-site",
    "capacity-scheduler"};

  private static final File NOWHERE = new File("/nowhere");

  public static void main(String[] args) throws Exception {
    new JobConf(false);
    new YarnConfiguration();
    new HdfsConfiguration();
    Map<String, Object> found = new TreeMap<>();
    File[] folders = new File(args[0]).listFiles(File::isDirectory);
    for (File folder : folders) {
      Map<String, Object> views = new TreeMap<>();
      views.put("client", view(folder, CLIENT));
      views.put("resourcemanager", view(folder, MANAGER));
      found.put(folder.getName(), views);
    }
    Map<String, Object> defaults = new TreeMap<>();
    Configuration bare = load(NOWHERE, CLIENT);
    for (int i = 1; i < args.length; i++)
      if (bare.getRaw(args[i]) != null) defaults.put(args[i], bare.getRaw(args[i]));
    Map<String, Object> all = new TreeMap<>();
    all.put("folders", found);
    all.put("defaults", defaults);
    all.put("deprecated", deprecated());
    System.out.println(json(all));
  }

  private static Configuration load(File folder, String[] names) throws Exception {
    URL[] path = {folder.toURI().toURL()};
    ClassLoader loader = new URLClassLoader(path, SiteFiles.class.getClassLoader());
    Configuration conf = new Configuration(false);
    conf.setClassLoader(loader);
    for (String name : names)
      if (name.endsWith("-default") || new File(folder, name + ".xml").isFile()) conf.addResource(name + ".xml");
    return conf;
  }

  /** The properties that a file of the folder sets, and what the typed reads of Hadoop's own classes make of them. */
  private static Object view(File folder, String[] names) throws Exception {
    Configuration conf = load(folder, names);
    Map<String, Object> all = new TreeMap<>();
    try {
      conf.size();
    } catch (RuntimeException error) {
      all.put("error", String.valueOf(error.getMessage()).replace(folder.getAbsolutePath(), "."));
      return all;
    }
    Map<String, Object> properties = new TreeMap<>();
    for (Iterator<Map.Entry<String, String>> each = conf.iterator(); each.hasNext();) {
      String name = each.next().getKey();
      String[] from = conf.getPropertySources(name);
      boolean isDefault = from != null && from[from.length - 1].endsWith("-default.xml");
      if (!isDefault && conf.getRaw(name) != null) properties.put(name, property(conf, name));
    }
    TreeSet<String> finals = new TreeSet<>(conf.getFinalParameters());
    Configuration bare = load(NOWHERE, names);
    bare.size();
    finals.removeAll(bare.getFinalParameters());
    all.put("properties", properties);
    all.put("finals", new ArrayList<>(finals));
    all.put("reads", reads(conf));
    return all;
  }

  private static Object property(Configuration conf, String name) {
    Map<String, Object> all = new TreeMap<>();
    all.put("raw", conf.getRaw(name));
    all.put("text", tried(() -> conf.get(name)));
    all.put("integer", tried(() -> conf.getLong(name, -7)));
    all.put("boolean", tried(() -> conf.getBoolean(name, true) == conf.getBoolean(name, false)
        ? conf.getBoolean(name, true) : "default"));
    all.put("ms", tried(() -> conf.getTimeDuration(name, -7, TimeUnit.MILLISECONDS)));
    all.put("names", tried(() -> new ArrayList<>(conf.getTrimmedStringCollection(name))));
    return all;
  }

  private static Object reads(Configuration conf) {
    Map<String, Object> all = new TreeMap<>();
    all.put("default_fs", tried(() -> FileSystem.getDefaultUri(conf).toString()));
    all.put("secure", tried(() -> SecurityUtil.getAuthenticationMethod(conf) != null
        ? SecurityUtil.getAuthenticationMethod(conf).name() : null));
    all.put("yarn_https", tried(() -> YarnConfiguration.useHttps(conf)));
    all.put("dfs_policy", tried(() -> HttpConfig.Policy.fromString(conf.get("dfs.http.policy", "HTTP_ONLY")).name()));
    all.put("ha", tried(() -> HAUtil.isHAEnabled(conf)));
    return all;
  }

  /** Deprecated names with the names that take their place. */
  private static Object deprecated() throws Exception {
    Map<String, Object> all = new TreeMap<>();
    java.lang.reflect.Field contexts = Configuration.class.getDeclaredField("deprecationContext");
    contexts.setAccessible(true);
    Object context = ((java.util.concurrent.atomic.AtomicReference<?>) contexts.get(null)).get();
    java.lang.reflect.Method method = context.getClass().getDeclaredMethod("getDeprecatedKeyMap");
    method.setAccessible(true);
    for (Map.Entry<?, ?> each : ((Map<?, ?>) method.invoke(context)).entrySet()) {
      java.lang.reflect.Field names = each.getValue().getClass().getDeclaredField("newKeys");
      names.setAccessible(true);
      List<Object> fresh = new ArrayList<>();
      for (String name : (String[]) names.get(each.getValue())) fresh.add(name);
      all.put((String) each.getKey(), fresh);
    }
    return all;
  }

  /** The value, or {"error": its class}. */
  private static Object tried(Callable<Object> read) {
    try {
      return read.call();
    } catch (Exception error) {
      Map<String, Object> failed = new TreeMap<>();
      failed.put("error", error.getClass().getSimpleName());
      return failed;
    }
  }

  private static String json(Object value) {
    if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
    StringBuilder text = new StringBuilder();
    if (value instanceof Map) {
      for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet())
        text.append(text.length() > 0 ? "," : "").append(json(each.getKey())).append(":").append(json(each.getValue()));
      return "{" + text + "}";
    }
    if (value instanceof List) {
      for (Object each : (List<?>) value) text.append(text.length() > 0 ? "," : "").append(json(each));
      return "[" + text + "]";
    }
    for (char each : value.toString().toCharArray())
      text.append(each == '"' || each == '\\' ? "\\" + each : each < ' ' || each > '~' ? String.format("\\u%04x", (int) each)
          : String.valueOf(each));
    return "\"" + text + "\"";
  }
}
