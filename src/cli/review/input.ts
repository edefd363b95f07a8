/** Reads objects from files, folders and the standard input. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';

import { messageOf } from '../../json/error-message.ts';
import { textIn } from '../../json/json.ts';
import { joined, objectsOf, parseDocuments, type Parsed, type PlacedObject } from './documents.ts';

/** The input is invalid. The message has one line per problem. */
export class UnusableInput extends Error {
  override readonly name = 'UnusableInput';
}

/** @throws UnusableInput if there are problems */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new UnusableInput([...new Set(problems)].join('\n'));
}

export interface ReadOptions {
  /** Whether to read folders recursively. */
  readonly recursive: boolean;
  /** Reads the whole standard input. */
  readonly standardInput: () => string;
}

/**
 * The objects of all files in order; the files of a folder by name.
 *
 * @param paths as given; `-` is the standard input
 * @throws UnusableInput with all problems, by file, document and line
 */
export function readObjects(paths: readonly string[], options: ReadOptions): readonly PlacedObject[] {
  return readInputs([paths], options).flat();
}

/** The objects of each input. @throws UnusableInput with the problems of all inputs */
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

function readFile(file: string, { standardInput }: ReadOptions): Parsed<PlacedObject> {
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

/** The files of a path. */
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
