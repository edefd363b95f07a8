/** Text → the objects in it, each with where it stands. */
import {
  isJsonArray,
  isJsonObject,
  ownValue,
  parseJson,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { jsonOfYaml, parseYamlDocuments } from './yaml-text.ts';

/** Where an object stands in what the user gave us. */
export interface Place {
  /** As the user wrote it; `-` is the standard input. */
  readonly file: string;
  /** 1-based; undefined in JSON. */
  readonly line?: number;
  /** 1-based; undefined where the file has one document alone. */
  readonly document?: number;
  /** 1-based: of a list. */
  readonly item?: number;
}

/** e.g. `objects/servers.yaml:20 (document 3, item 2)` */
export function describePlace({ file, line, document, item }: Place): string {
  const name = file === '-' ? 'standard input' : file;
  const parts = [
    ...(document === undefined ? [] : [`document ${document}`]),
    ...(item === undefined ? [] : [`item ${item}`]),
  ];
  return `${name}${line === undefined ? '' : `:${line}`}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

/** A document of any content. */
export interface PlacedValue {
  readonly place: Place;
  readonly value: JsonValue;
}

/** An object of the Kubernetes API: it has `apiVersion` and `kind`. */
export interface PlacedObject {
  readonly place: Place;
  readonly object: JsonObject;
}

export interface Parsed<T> {
  readonly found: readonly T[];
  /** What is wrong, each with its place. */
  readonly problems: readonly string[];
}

/** The documents of YAML or JSON; empty ones are left out. */
export function parseDocuments(text: string, file: string): Parsed<PlacedValue> {
  try {
    return parse(text, file);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return problem({ file }, 'it is nested too deeply');
  }
}

function parse(text: string, file: string): Parsed<PlacedValue> {
  const json = jsonIn(text);
  if (json !== undefined) return { found: [{ place: { file }, value: json }], problems: [] };
  const found: PlacedValue[] = [];
  const problems: string[] = [];
  const { documents } = parseYamlDocuments(text);
  for (const [index, { node, line, problems: flaws }] of documents.entries()) {
    const place: Place = { file, line, ...(documents.length > 1 ? { document: index + 1 } : {}) };
    if (flaws.length > 0) {
      problems.push(
        ...flaws.map((flaw) => `${describePlace({ ...place, line: flaw.line })}: ${flaw.message}`),
      );
      continue;
    }
    try {
      const value = jsonOfYaml(node.toJS());
      if (value !== null) found.push({ place, value });
    } catch (error) {
      if (error instanceof RangeError) throw error;
      problems.push(`${describePlace(place)}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { found, problems: [...new Set(problems)] };
}

/** Undefined when it is not JSON: YAML tells better where it is wrong. */
function jsonIn(text: string): JsonValue | undefined {
  if (!/^\uFEFF?\s*[[{]/.test(text)) return undefined;
  try {
    return parseJson(text.replace(/^\uFEFF/, ''));
  } catch {
    return undefined;
  }
}

/** The objects of a document, those of a `List` one by one. */
export function objectsOf({ place, value }: PlacedValue): Parsed<PlacedObject> {
  if (!isJsonObject(value)) {
    return problem(place, 'this is no object of the Kubernetes API: it needs apiVersion and kind');
  }
  const kind = ownValue(value, 'kind');
  const apiVersion = ownValue(value, 'apiVersion');
  if (typeof apiVersion !== 'string' || apiVersion === '') {
    return problem(place, 'apiVersion is missing: this is no object of the Kubernetes API');
  }
  if (typeof kind !== 'string' || kind === '') return problem(place, 'kind is missing');
  const items = ownValue(value, 'items');
  if (kind.endsWith('List') && isJsonArray(items)) return itemsOf(place, items, { apiVersion, kind });
  const metadata = ownValue(value, 'metadata');
  if (metadata !== undefined && !isJsonObject(metadata)) return problem(place, 'metadata is not an object');
  return { found: [{ place, object: value }], problems: [] };
}

/** What the API server lists has its kind in the name of the list alone. */
function itemsOf(
  place: Place,
  items: readonly JsonValue[],
  list: { readonly apiVersion: string; readonly kind: string },
): Parsed<PlacedObject> {
  const { apiVersion } = list;
  const kind = list.kind.slice(0, -'List'.length);
  const isTyped = kind !== '';
  const parsed = items.map((item, index) =>
    objectsOf({
      place: { ...place, item: index + 1 },
      value: isTyped && isJsonObject(item) ? { apiVersion, kind, ...item } : item,
    }),
  );
  return {
    found: parsed.flatMap(({ found }) => found),
    problems: parsed.flatMap(({ problems }) => problems),
  };
}

const problem = (place: Place, message: string): Parsed<never> => ({
  found: [],
  problems: [`${describePlace(place)}: ${message}`],
});

/** A field that is a text; empty where it is none. */
export function textOf(object: JsonObject, key: string): string {
  const value = ownValue(object, key);
  return typeof value === 'string' ? value : '';
}

/** The same of its metadata. */
export function metaTextOf(object: JsonObject, key: string): string {
  const metadata = ownValue(object, 'metadata');
  return isJsonObject(metadata) ? textOf(metadata, key) : '';
}
