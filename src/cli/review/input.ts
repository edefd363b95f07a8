/** Files, folders and the standard input → objects. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';

import { objectsOf, parseDocuments, textOf, type Parsed, type PlacedObject } from './documents.ts';

/** What the user gave us cannot be used. The message names all that is wrong, a line each. */
export class UnusableInput extends Error {
  override readonly name = 'UnusableInput';
}

/** @throws UnusableInput with all of them, if there are any */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new UnusableInput([...new Set(problems)].join('\n'));
}

export interface ReadOptions {
  /** Whether folders are read with all that is below them. */
  readonly recursive: boolean;
  /** All of the standard input. */
  readonly standardInput: () => string;
}

/**
 * Every object of the files, in their order; folders by the name of their files.
 *
 * @param paths as the user wrote them; `-` is the standard input
 * @throws UnusableInput with all that is wrong, by file, document and line
 */
export function readObjects(paths: readonly string[], options: ReadOptions): readonly PlacedObject[] {
  return readInputs([paths], options).flat();
}

/** The same for several inputs, each in its place. @throws UnusableInput with all that is wrong with any of them */
export function readInputs(
  inputs: readonly (readonly string[] | undefined)[],
  options: ReadOptions,
): readonly (readonly PlacedObject[])[] {
  const read = inputs.map((paths = []) => paths.map((path) => readPath(path, options)));
  refuse(read.flat().flatMap(({ problems }) => problems));
  return read.map((parsed) => parsed.flatMap(({ found }) => found));
}

function readPath(path: string, options: ReadOptions): Parsed<PlacedObject> {
  const { files, problems } = filesAt(path, options);
  const parsed = files.map((file): Parsed<PlacedObject> => {
    const text = contentOf(file, options);
    if (typeof text !== 'string') return { found: [], problems: [text.problem] };
    const documents = parseDocuments(text, file);
    const objects = documents.found.map(objectsOf);
    return {
      found: objects.flatMap(({ found }) => found).filter((each) => !isKustomization(each)),
      problems: [...documents.problems, ...objects.flatMap((each) => each.problems)],
    };
  });
  return {
    found: parsed.flatMap(({ found }) => found),
    problems: [...problems, ...parsed.flatMap((each) => each.problems)],
  };
}

/** It lies among objects and is none. */
const isKustomization = ({ object }: PlacedObject): boolean =>
  textOf(object, 'apiVersion').startsWith('kustomize.config.k8s.io/');

const EXTENSIONS = ['.yaml', '.yml', '.json'];

/** The files that a path stands for. */
export function filesAt(
  path: string,
  { recursive }: Pick<ReadOptions, 'recursive'>,
): { readonly files: readonly string[]; readonly problems: readonly string[] } {
  if (path === '-') return { files: [path], problems: [] };
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return { files: [], problems: [`${path}: there is no such file or folder`] };
  if (!stats.isDirectory()) return { files: [path], problems: [] };
  const files = readdirSync(path, { withFileTypes: true, recursive })
    .filter((entry) => !entry.isDirectory() && EXTENSIONS.includes(extname(entry.name)))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  if (files.length > 0) return { files, problems: [] };
  const hint = recursive ? '' : ' (what is in folders below it is read with --recursive)';
  return { files, problems: [`${path}: there is no .yaml, .yml or .json file in this folder${hint}`] };
}

function contentOf(
  file: string,
  { standardInput }: Pick<ReadOptions, 'standardInput'>,
): string | { readonly problem: string } {
  try {
    return file === '-' ? standardInput() : readFileSync(file, 'utf8');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { problem: `${file === '-' ? 'standard input' : file}: it cannot be read: ${why}` };
  }
}
