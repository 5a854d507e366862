import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;

/** Prints name, type and validator of each broker property of the Kafka in the class path, without internal ones. */
public class BrokerProperties {
    public static void main(String[] args) throws Exception {
        for (Map.Entry<String, Object> entry : new TreeMap<>(keys(definition())).entrySet()) {
            Object key = entry.getValue();
            if (!internal(key)) {
                Object validator = key.getClass().getField("validator").get(key);
                String limits = validator == null ? "" : validator.toString().replaceAll("\\s+", " ");
                System.out.println(entry.getKey() + "\t" + key.getClass().getField("type").get(key) + "\t" + limits);
            }
        }
    }

    /** The ConfigDef, which KafkaConfig offers by another name in each version. */
    private static Object definition() throws Exception {
        Class<?> config = Class.forName("kafka.server.KafkaConfig$");
        Object module = config.getField("MODULE$").get(null);
        for (Method method : config.getDeclaredMethods()) {
            if (method.getParameterCount() == 0 && method.getReturnType().getName().endsWith(".ConfigDef")) {
                method.setAccessible(true);
                return method.invoke(module);
            }
        }
        throw new IllegalStateException("KafkaConfig has no ConfigDef");
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> keys(Object definition) throws Exception {
        Field keys = definition.getClass().getDeclaredField("configKeys");
        keys.setAccessible(true);
        return (Map<String, Object>) keys.get(definition);
    }

    private static boolean internal(Object key) throws Exception {
        try {
            return key.getClass().getField("internalConfig").getBoolean(key);
        } catch (NoSuchFieldException old) {
            return false;
        }
    }
}
