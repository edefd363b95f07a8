/** Imports modules of users. From any folder, they can import this package by its name. */
import { registerHooks, type ResolveFnOutput, type ResolveHookContext } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The module that `package.json` exports; its TypeScript source when this process runs from sources. */
const SDK = new URL(`../../index.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url).href;
const OWN_NAME = 'gatehouse';

/**
 * Prefix of a specifier that contains a package name and a parent URL. Node resolves the package from that URL instead
 * of from this file.
 */
const FROM_ELSEWHERE = 'gatehouse-handlers:';

/** Timeout of an import, in milliseconds: a module may wait forever in a top-level await. */
const LOADING_MS = 30_000;

type Module = Readonly<Record<string, unknown>>;

let hooked = false;

/** @throws what the module throws, or an Error after the timeout */
export async function importAs(specifier: string): Promise<Module> {
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

/** Imports a package as a file in the folder `from` would. */
export async function importPackage(name: string, from: string): Promise<Module> {
  const parent = pathToFileURL(join(from, 'handlers.js')).href;
  return await importAs(`${FROM_ELSEWHERE}${JSON.stringify([name, parent])}`);
}

function hook(): void {
  if (hooked) return;
  hooked = true;
  registerHooks({
    resolve: (specifier, context, next): ResolveFnOutput => {
      if (specifier === OWN_NAME) return { url: SDK, shortCircuit: true };
      if (!specifier.startsWith(FROM_ELSEWHERE)) return next(specifier, context);
      const [name, parentURL] = JSON.parse(specifier.slice(FROM_ELSEWHERE.length)) as [string, string]; // written above
      return next(name, { ...context, parentURL } satisfies ResolveHookContext);
    },
  });
}
