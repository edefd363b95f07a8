/**
 * The metadata that a conversion must not change. @see k8s.io/apiextensions-apiserver pkg/apiserver/conversion
 * (restoreObjectMeta)
 */
import { isEqual, isJsonObject, valueIn, type JsonObject, type JsonValue } from '../../json/json.ts';
import { isLabelValue, isQualifiedName } from '../../json/names.ts';
import { quote } from '../../json/printable.ts';
import { ConversionFailure } from './converter.ts';
import { withField } from './edit.ts';

const MARKS = ['labels', 'annotations'] as const;

/**
 * The converted object with the kind and metadata of the original, and with the requested version. Only labels and
 * annotations come from the converted object.
 *
 * @throws ConversionFailure if the identity changed, or if a label or annotation is invalid for the API server
 */
export function keepIdentity(original: JsonObject, converted: JsonObject, apiVersion: string): JsonObject {
  const kind = valueIn(converted, 'kind') ?? valueIn(original, 'kind');
  if (!isEqual(kind, valueIn(original, 'kind'))) throw changed('kind', original, converted);
  const before = metadataOf(original, {});
  // The API server never sends an object without metadata, and rejects a response without it.
  const after = metadataOf(converted, Object.hasOwn(original, 'metadata') ? undefined : {});
  for (const field of ['name', 'namespace', 'uid']) {
    if (!isEqual(valueIn(after, field) ?? '', valueIn(before, field) ?? ''))
      throw changed(`metadata.${field}`, before, after, field);
  }
  const metadata = MARKS.reduce((kept, map) => withField(kept, map, marksOf(map, before, after)), before);
  const typed = withField(withField(converted, 'apiVersion', apiVersion), 'kind', kind);
  return withField(typed, 'metadata', metadata);
}

function metadataOf(object: JsonObject, absent: JsonObject | undefined): JsonObject {
  const metadata = valueIn(object, 'metadata') ?? absent;
  if (isJsonObject(metadata)) return metadata;
  throw new ConversionFailure(
    metadata === undefined
      ? 'the converter dropped metadata: it may change labels and annotations, and must keep the rest'
      : `metadata is ${quote(metadata)} and not an object`,
  );
}

function changed(what: string, before: JsonObject, after: JsonObject, field = what): ConversionFailure {
  const [was, is] = [valueIn(before, field), valueIn(after, field)];
  return new ConversionFailure(
    `the converter changed ${what} from ${quote(was)} to ${quote(is)}: it must keep it`,
  );
}

/** Labels or annotations. The API server accepts null for an empty map. */
function marksOf(map: (typeof MARKS)[number], before: JsonObject, after: JsonObject): JsonObject | undefined {
  const marks = valueIn(after, map) ?? undefined;
  if (marks === undefined) return undefined;
  if (!isJsonObject(marks))
    throw new ConversionFailure(
      `the converter made ${quote(marks)} of metadata.${map}: it must be a map of texts`,
    );
  const old = valueIn(before, map);
  if (marks === old) return marks;
  for (const [key, value] of Object.entries(marks)) {
    if (!isEqual(value, valueIn(old, key))) checkMark(map, key, value);
  }
  return marks;
}

function checkMark(map: (typeof MARKS)[number], key: string, value: JsonValue): void {
  const where = `metadata.${map}[${quote(key)}]`;
  if (!isQualifiedName(key)) throw new ConversionFailure(`${where}: the API server does not take this key`);
  if (typeof value !== 'string') throw new ConversionFailure(`${where} must be a text, not ${quote(value)}`);
  if (map === 'labels' && !isLabelValue(value))
    throw new ConversionFailure(`${where}: ${quote(value)} is no value that a label can have`);
}
