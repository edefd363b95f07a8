/** Loads handlers from a folder or a package. Reports every problem at the start instead of at the first request. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isSea } from 'node:sea';
import { registerHooks, stripTypeScriptTypes, type ResolveFnOutput } from 'node:module';

import type { MatchEnvironment } from '../../admission/policy/match/compile-match.ts';
import { isName } from '../../api/definition.ts';
import { isHandler, type Handler } from '../../admission/handlers/handler.ts';
import { toError } from '../../admission/handlers/errors.ts';
import { isController, type Controller } from '../../controllers/controller.ts';
import { compileHandler, type CompiledHandler } from '../../admission/handlers/compile-handler.ts';

interface Origin {
  readonly name: string;
  readonly origin: string;
}

export interface LoadedHandler extends Origin {
  readonly handler: Handler;
}

export interface LoadedController extends Origin {
  readonly controller: Controller;
}

export interface Loaded {
  readonly handlers: readonly LoadedHandler[];
  readonly controllers: readonly LoadedController[];
}

export const NOTHING: Loaded = { handlers: [], controllers: [] };

/** The name under which npm installs Gatehouse, and handlers import it. */
export const OWN_NAME = '@gatehouse-dev/gatehouse';

class InvalidHandlers extends Error {
  override readonly name = 'InvalidHandlers';
}

const EXTENSIONS = ['.ts', '.mts', '.js', '.mjs'];
/** Tests share the folder with handlers, and declaration files contain no code. */
const NO_HANDLER = /(\.d\.m?ts|\.(test|spec)\.m?[jt]s)$/;

/** No URLs: `data:text/javascript,…` would be code inside the setting. */
const PACKAGE_NAME = /^(@[\w~-][\w.~-]*\/)?[\w~-][\w.~-]*(\/[\w~-][\w.~-]*)*$/;

export const loadHandlers = async (source: string, from: string): Promise<readonly LoadedHandler[]> =>
  (await loadModules(source, from)).handlers;

/** @param source a folder, or the name of a package. @throws InvalidHandlers with all problems, by file */
export async function loadModules(source: string, from: string): Promise<Loaded> {
  if (isSea()) throw new InvalidHandlers(NO_MODULES);
  const folder = resolve(from, source);
  const results = isFolder(folder) ? await fromFolder(folder) : await fromPackage(source, from);
  const loaded = results.filter((result) => typeof result !== 'string');
  const handlers = loaded.filter((one) => 'handler' in one);
  const controllers = loaded.filter((one) => 'controller' in one);
  const writers = controllers.filter(({ controller }) => controller.leaderOnly !== false);
  const problems = [
    ...results.filter((result) => typeof result === 'string'),
    ...twice(handlers, nameOf, rename),
    ...twice(controllers, nameOf, rename),
    // Two controllers would overwrite each other's conditions.
    ...twice(writers, kindOf, (kind) => `watch ${kind}: merge them`),
    ...(results.length === 0 ? [`${source}: it contains no handler`] : []),
  ];
  if (problems.length > 0) throw new InvalidHandlers(problems.join('\n'));
  return { handlers: handlers.toSorted(byName), controllers: controllers.toSorted(byName) };
}

const byName = (a: Origin, b: Origin) => (a.name < b.name ? -1 : 1);

const NO_MODULES = `handlers: the single executable cannot load modules: use the image, or npx ${OWN_NAME}`;

type Result = LoadedHandler | LoadedController | string;

async function fromFolder(folder: string): Promise<readonly Result[]> {
  folders.add(`${pathToFileURL(folder).href}/`);
  const files = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && EXTENSIONS.includes(extname(entry.name)))
    .map(({ name }) => name)
    .filter((name) => !NO_HANDLER.test(name) && !name.startsWith('.'))
    .sort();
  const results: Result[] = [];
  for (const file of files) {
    const path = join(folder, file);
    const found = await attempt(path, async () => (await importAs(pathToFileURL(path).href)).default);
    results.push(...(typeof found === 'string' ? [found] : allIn(found.value, path, nameOfFile(file))));
  }
  return results;
}

async function fromPackage(name: string, from: string): Promise<readonly Result[]> {
  if (name.startsWith('.') || name.startsWith('/'))
    return [`${name}: the folder does not exist (from ${from})`];
  if (!PACKAGE_NAME.test(name)) return [`${name}: it is neither a folder nor the name of a package`];
  const found = await attempt(name, async () => (await importPackage(name, from)).default);
  return typeof found === 'string' ? [found] : allIn(found.value, name, undefined);
}

const allIn = (value: unknown, origin: string, fallback: string | undefined): readonly Result[] =>
  Array.isArray(value)
    ? value.map((one: unknown, index) => checked(one, `${origin}, default export [${index}]`, fallback))
    : [checked(value, origin, fallback)];

async function attempt(
  origin: string,
  load: () => Promise<unknown>,
): Promise<string | { readonly value: unknown }> {
  try {
    return { value: await load() };
  } catch (thrown) {
    const error = toError(thrown);
    return `${origin}${lineOf(error, origin)}: ${error.message}`;
  }
}

/** The line and column of the error, such as `:3:7`; empty when the stack does not name the file. */
function lineOf({ stack }: Error, path: string): string {
  const [, after = ''] = String(stack).split(path, 2);
  const [place = '', line = '', column] = /^(:\d+)(:\d+)?/.exec(after) ?? [];
  // A syntax error shows its column by a caret below the line.
  const caret = /\n( *)\^/.exec(after)?.[1]?.length;
  return column !== undefined || caret === undefined ? place : `${line}:${caret + 1}`;
}

function checked(value: unknown, origin: string, fallback: string | undefined): Result {
  if (value === undefined)
    return `${origin}: the default export is missing: write export default defineHandler({…}), or move shared code to a subfolder`;
  if (!isHandler(value) && !isController(value))
    return `${origin}: its default export was not made by defineHandler or defineController`;
  const name = value.name ?? fallback;
  if (name === undefined) return `${origin}: a handler in a package needs a name`;
  if (!isName(name))
    return `${origin}: "${name}" cannot be the name of a handler: use at most 40 lower-case letters, digits and dashes`;
  return isController(value) ? { name, origin, controller: value } : { name, origin, handler: value };
}

const twice = <T extends Origin>(
  loaded: readonly T[],
  valueOf: (one: T) => string,
  problemOf: (value: string) => string,
): readonly string[] =>
  [...Map.groupBy(loaded, valueOf)].flatMap(([value, same]) =>
    same.length < 2 ? [] : [`${same.map(({ origin }) => origin).join(' and ')}: both ${problemOf(value)}`],
  );

const nameOf = ({ name }: Origin): string => name;
const kindOf = ({ controller: { watch } }: LoadedController): string =>
  `${watch.resources[0]}.${watch.apiGroups[0]}`;
const rename = (name: string): string => `have the name ${name}: rename one`;

const nameOfFile = (file: string): string => basename(file, extname(file));

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

export function compileHandlers(
  loaded: readonly LoadedHandler[],
  environment: MatchEnvironment,
): readonly CompiledHandler[] {
  const results = loaded.map(({ name, origin, handler }) => ({
    origin,
    result: compileHandler(name, handler, environment),
  }));
  const problems = results.flatMap(({ origin, result }) =>
    result.kind === 'rejected' ? result.problems.map((problem) => `${origin}: ${problem}`) : [],
  );
  if (problems.length > 0) throw new InvalidHandlers(problems.join('\n'));
  return results.flatMap(({ result }) => (result.kind === 'compiled' ? [result.handler] : []));
}

/** The module that `package.json` exports; its TypeScript source when this process runs from sources. */
const SDK = new URL(`../../index.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url).href;

/** Prefix of a specifier with a package name and the URL from which Node resolves the package. */
const FROM_ELSEWHERE = 'gatehouse-handlers:';
/** Timeout of an import, in milliseconds: a module may wait forever in a top-level await. */
const LOADING_MS = 30_000;

type Module = Readonly<Record<string, unknown>>;

let hooked = false;
/** Folders with handlers, as URLs, and how often they were changed: Node loads a module once for each URL. */
const folders = new Set<string>();
let changes = 0;

export function reloadHandlers(): void {
  changes += 1;
}

/** All exports of a module next to handlers. */
export async function loadExports(path: string): Promise<Readonly<Record<string, unknown>>> {
  folders.add(`${pathToFileURL(dirname(path)).href}/`);
  const found = await attempt(path, () => importAs(pathToFileURL(path).href));
  if (typeof found === 'string') throw new InvalidHandlers(found);
  return found.value as Readonly<Record<string, unknown>>; // a namespace is a record of its exports
}

async function importAs(specifier: string): Promise<Module> {
  hook();
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`it was not loaded within ${LOADING_MS / 1_000} s`)),
    LOADING_MS,
  );
  try {
    return (await Promise.race([import(specifier), late.promise])) as Module; // a namespace is a record of its exports
  } finally {
    clearTimeout(timer);
  }
}

async function importPackage(name: string, from: string): Promise<Module> {
  const parent = pathToFileURL(join(from, 'handlers.js')).href;
  return await importAs(`${FROM_ELSEWHERE}${JSON.stringify([name, parent])}`);
}

function hook(): void {
  if (hooked) return;
  hooked = true;
  registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier === OWN_NAME) return { url: SDK, shortCircuit: true };
      if (!specifier.startsWith(FROM_ELSEWHERE)) return versioned(next(specifier, context));
      const [name, parentURL] = JSON.parse(specifier.slice(FROM_ELSEWHERE.length)) as [string, string]; // written above
      return next(name, { ...context, parentURL });
    },
    load: (url, context, next) => {
      // Node strips no types below node_modules, where the examples of an installed package are.
      if (!/\/node_modules\/.*\.m?ts(\?|$)/.test(url) || !isOfHandlers(url)) return next(url, context);
      const source = stripTypeScriptTypes(readFileSync(fileURLToPath(url.replace(/\?.*/, '')), 'utf8'));
      return { format: 'module', source, shortCircuit: true };
    },
  });
}

const isOfHandlers = (url: string): boolean => [...folders].some((folder) => url.startsWith(folder));

function versioned(resolved: ResolveFnOutput): ResolveFnOutput {
  if (changes === 0 || !isOfHandlers(resolved.url)) return resolved;
  return { ...resolved, url: `${resolved.url}?change=${changes}` };
}
