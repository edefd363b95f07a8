/** Parses text into objects, each with its place in the input. */
import {
  isJsonArray,
  isJsonObject,
  ownValue,
  parseJson,
  textIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { messageOf } from '../../json/error-message.ts';
import { createLocate, type Locate } from './locate.ts';
import { jsonOfYaml, parseYamlDocuments } from './yaml-text.ts';

/** The place of an object in the input. */
export interface Place {
  /** The path as given; `-` is the standard input. */
  readonly file: string;
  /** 1-based; undefined in JSON. */
  readonly line?: number;
  /** 1-based; only for a part of an object. */
  readonly column?: number;
  /** 1-based; undefined if the file has a single document. */
  readonly document?: number;
  /** The 1-based index in a list. */
  readonly item?: number;
}

/** e.g. `objects/servers.yaml:20 (document 3, item 2)` */
export function describePlace({ file, line, column, document, item }: Place): string {
  const name = file === '-' ? 'standard input' : file;
  const parts = [
    ...(document === undefined ? [] : [`document ${document}`]),
    ...(item === undefined ? [] : [`item ${item}`]),
  ];
  const at = [line, column].filter((one) => one !== undefined).map((one) => `:${one}`);
  return `${name}${at.join('')}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

/** A document with any content. */
export interface PlacedValue {
  readonly place: Place;
  readonly value: JsonValue;
  /** Undefined if the value is a part of a document. */
  readonly locate?: Locate | undefined;
}

/** An object of the Kubernetes API: it has `apiVersion` and `kind`. */
export interface PlacedObject {
  readonly place: Place;
  readonly object: JsonObject;
  /** Finds a field of the object in its file. Undefined if the object was not read from a file. */
  readonly locate?: Locate | undefined;
}

export interface Parsed<T> {
  readonly found: readonly T[];
  /** The problems, each with its place. */
  readonly problems: readonly string[];
}

/** All results in order. */
export const joined = <T>(all: readonly Parsed<T>[]): Parsed<T> => ({
  found: all.flatMap(({ found }) => found),
  problems: all.flatMap(({ problems }) => problems),
});

/** Parses YAML or JSON documents; skips empty ones. */
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
  if (json !== undefined)
    return { found: [{ place: { file }, value: json, locate: createLocate(text, 0) }], problems: [] };
  const found: PlacedValue[] = [];
  const problems: string[] = [];
  const { documents } = parseYamlDocuments(text);
  for (const [index, { node, line, problems: flaws }] of documents.entries()) {
    const place: Place = { file, line, ...(documents.length > 1 ? { document: index + 1 } : {}) };
    for (const flaw of flaws)
      problems.push(`${describePlace({ ...place, line: flaw.line })}: ${flaw.message}`);
    if (flaws.length > 0) continue;
    try {
      const value = jsonOfYaml(node.toJS());
      if (value !== null) found.push({ place, value, locate: createLocate(text, index) });
    } catch (error) {
      if (error instanceof RangeError) throw error;
      problems.push(`${describePlace(place)}: ${messageOf(error)}`);
    }
  }
  return { found, problems: [...new Set(problems)] };
}

/** Undefined if the text is not JSON: the YAML parser gives better error positions. */
function jsonIn(text: string): JsonValue | undefined {
  if (!/^\uFEFF?\s*[[{]/.test(text)) return undefined;
  try {
    return parseJson(text.replace(/^\uFEFF/, ''));
  } catch {
    return undefined;
  }
}

/** The objects of a document; a `List` is split into its items. */
export function objectsOf({ place, value, locate }: PlacedValue): Parsed<PlacedObject> {
  if (!isJsonObject(value))
    return problem(place, 'not a Kubernetes object: apiVersion and kind are required');
  const kind = textIn(value, 'kind');
  const apiVersion = textIn(value, 'apiVersion');
  if (apiVersion === '') return problem(place, 'apiVersion is missing: not a Kubernetes object');
  if (kind === '') return problem(place, 'kind is missing');
  const items = ownValue(value, 'items');
  if (kind.endsWith('List') && isJsonArray(items)) {
    // Items of a typed list, such as PodList, have no kind of their own.
    const type = kind === 'List' ? {} : { apiVersion, kind: kind.slice(0, -'List'.length) };
    return joined(
      items.map((item, index) =>
        objectsOf({
          place: { ...place, item: index + 1 },
          locate: locate && ((field, ...rest) => locate(`items[${index}].${field}`, ...rest)),
          value: isJsonObject(item) ? { ...type, ...item } : item,
        }),
      ),
    );
  }
  const metadata = ownValue(value, 'metadata');
  if (metadata !== undefined && !isJsonObject(metadata)) return problem(place, 'metadata is not an object');
  return { found: [{ place, object: value, locate }], problems: [] };
}

const problem = (place: Place, message: string): Parsed<never> => ({
  found: [],
  problems: [`${describePlace(place)}: ${message}`],
});
