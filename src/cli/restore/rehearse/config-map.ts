/** The ConfigMaps that a Restore names. */
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue, objectIn } from '../../../json/json.ts';
import { withoutNulls } from '../../../machinery/patch/json-patch.ts';
import { prune } from '../../../machinery/schema/prune.ts';
import { changeFields, changeItems, childSchema, type Schema } from '../../../machinery/schema/schema.ts';
import { validateSchema } from '../../../machinery/schema/validate.ts';
import { jsonOfYaml, parseYamlDocuments } from '../../review/yaml.ts';

/** As strictly as Velero. @throws Error with all problems */
export function decodeConfigMap(
  configMap: JsonObject,
  schema: Schema,
  problemsIn: (value: JsonValue) => readonly string[] = () => [],
): JsonValue {
  const [text, ...more] = Object.values(objectIn(configMap, 'data'));
  if (typeof text !== 'string' || more.length > 0) throw new Error('data must have exactly one key');
  const value = withStrings(withoutNulls(yamlValue(text)) ?? {}, schema);
  const problems = [
    ...prune(value, schema).unknown.map((field) => `${field}: unknown field`),
    ...validateSchema(value, schema).map(({ field, message }) => `${field}: ${message}`),
    ...problemsIn(value),
  ];
  if (problems.length > 0) throw new Error(problems.join(', '));
  return value;
}

/** Of the first document. */
export function yamlValue(text: string): JsonValue {
  const [document] = parseYamlDocuments(text).documents;
  const [problem] = document?.problems ?? [];
  if (problem !== undefined) throw new Error(`line ${problem.line}: ${problem.message}`);
  return jsonOfYaml(document?.node.toJS());
}

/** Go's decoder accepts a number or a Boolean as a string. */
function withStrings(value: JsonValue, schema: Schema | undefined): JsonValue {
  if (isJsonArray(value)) return changeItems(value, (item) => withStrings(item, schema?.items));
  if (isJsonObject(value))
    return changeFields(value, (item, key) => withStrings(item, schema && childSchema(schema, key)));
  return schema?.type === 'string' ? String(value) : value;
}
