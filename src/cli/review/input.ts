/** Reads objects from files, folders and the standard input, each with its place. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';

import {
  isJsonArray,
  isJsonObject,
  jsonIn,
  ownValue,
  textIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { messageOf } from '../../json/abort.ts';
import { createLocate, type Locate, jsonOfYaml, parseYamlDocuments } from './yaml.ts';

/** The path as given, `-` for the standard input, and numbers from 1. */
export interface Place {
  readonly file: string;
  readonly line?: number;
  /** Only for a part of an object. */
  readonly column?: number;
  /** Undefined if the file has a single document. */
  readonly document?: number;
  readonly item?: number;
}

export function describePlace({ file, line, column, document, item }: Place): string {
  const name = file === '-' ? 'standard input' : file;
  const parts = [
    ...(document === undefined ? [] : [`document ${document}`]),
    ...(item === undefined ? [] : [`item ${item}`]),
  ];
  const at = [line, column].filter((one) => one !== undefined).map((one) => `:${one}`);
  return `${name}${at.join('')}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

interface PlacedValue {
  readonly place: Place;
  readonly value: JsonValue;
  readonly locate?: Locate | undefined;
}

export interface PlacedObject {
  readonly place: Place;
  readonly object: JsonObject;
  /** Finds a field of the object in its file. Undefined if the object was not read from a file. */
  readonly locate?: Locate | undefined;
}

export interface Parsed<T> {
  readonly found: readonly T[];
  readonly problems: readonly string[];
}

export const joined = <T>(all: readonly Parsed<T>[]): Parsed<T> => ({
  found: all.flatMap(({ found }) => found),
  problems: all.flatMap(({ problems }) => problems),
});

export function parseDocuments(text: string, file: string): Parsed<PlacedValue> {
  try {
    return parse(text, file);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return problem({ file }, 'it is nested too deeply');
  }
}

function parse(text: string, file: string): Parsed<PlacedValue> {
  // If the text is not JSON, the YAML parser gives better error positions.
  const json = /^\uFEFF?\s*[[{]/.test(text) ? jsonIn(text.replace(/^\uFEFF/, '')) : undefined;
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

export function objectsOf({ place, value, locate }: PlacedValue): Parsed<PlacedObject> {
  if (!isJsonObject(value))
    return problem(place, 'not a Kubernetes object: apiVersion and kind are required');
  const kind = textIn(value, 'kind');
  const apiVersion = textIn(value, 'apiVersion');
  if (apiVersion === '') return problem(place, 'apiVersion is missing: not a Kubernetes object');
  if (kind === '') return problem(place, 'kind is missing');
  const items = ownValue(value, 'items');
  if (kind.endsWith('List') && isJsonArray(items)) {
    // The items of a typed list, such as PodList, lack a kind.
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

export class UnusableInput extends Error {
  override readonly name = 'UnusableInput';
}

export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new UnusableInput([...new Set(problems)].join('\n'));
}

export interface ReadOptions {
  readonly recursive: boolean;
  readonly standardInput?: () => string;
}

/** @param paths `-` is the standard input @throws UnusableInput with all problems, by file, document and line */
export function readObjects(paths: readonly string[], options: ReadOptions): readonly PlacedObject[] {
  return readInputs([paths], options).flat();
}

export function readInputs(
  inputs: readonly (readonly string[] | undefined)[],
  options: ReadOptions,
): readonly (readonly PlacedObject[])[] {
  const read = inputs.map((paths = []) => paths.map((path) => readPath(path, options)));
  refuse(read.flat().flatMap(({ problems }) => problems));
  return read.map((parsed) => parsed.flatMap(({ found }) => found));
}

function readPath(path: string, options: ReadOptions): Parsed<PlacedObject> {
  const { found: files, problems } = filesAt(path, options);
  const { found, ...read } = joined(files.map((file) => readFile(file, options)));
  return {
    found: found.filter((each) => !isKustomization(each)),
    problems: [...problems, ...read.problems],
  };
}

function readFile(
  file: string,
  { standardInput = () => readFileSync(0, 'utf8') }: ReadOptions,
): Parsed<PlacedObject> {
  let text: string;
  try {
    text = file === '-' ? standardInput() : readFileSync(file, 'utf8');
  } catch (error) {
    const name = file === '-' ? 'standard input' : file;
    return { found: [], problems: [`${name}: cannot read: ${messageOf(error)}`] };
  }
  const { found, problems } = parseDocuments(text, file);
  const objects = joined(found.map(objectsOf));
  return { found: objects.found, problems: [...problems, ...objects.problems] };
}

/** Folders with manifests often contain one. */
const isKustomization = ({ object }: PlacedObject): boolean =>
  textIn(object, 'apiVersion').startsWith('kustomize.config.k8s.io/');

const EXTENSIONS = ['.yaml', '.yml', '.json'];

export function filesAt(path: string, { recursive }: Pick<ReadOptions, 'recursive'>): Parsed<string> {
  if (path === '-') return { found: [path], problems: [] };
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return { found: [], problems: [`${path}: no such file or folder`] };
  if (!stats.isDirectory()) return { found: [path], problems: [] };
  const found = readdirSync(path, { withFileTypes: true, recursive })
    .filter((entry) => !entry.isDirectory() && EXTENSIONS.includes(extname(entry.name)))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  if (found.length > 0) return { found, problems: [] };
  const hint = recursive ? '' : ' (use --recursive to read subfolders)';
  return { found, problems: [`${path}: the folder has no .yaml, .yml or .json file${hint}`] };
}
