/** Modules of users, which import this package by its name wherever they lie. */
import { registerHooks, type ResolveFnOutput, type ResolveHookContext } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** As `package.json` exports it. Beside the sources when those are what runs. */
const SDK = new URL(`../../index.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url).href;
const OWN_NAME = 'gatehouse';

/** In front of a package's name: look for it from another folder than this file's. */
const FROM_ELSEWHERE = 'gatehouse-handlers:';

/** A module that waits for something at its top level must not hold up the start for ever. */
const LOADING_MS = 30_000;

type Module = Readonly<Record<string, unknown>>;

let hooked = false;

/** @throws what the module throws, or that it took too long */
export async function importAs(specifier: string): Promise<Module> {
  hook();
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new Error(`it was not loaded within ${LOADING_MS / 1_000} s`));
  }, LOADING_MS);
  try {
    return (await Promise.race([import(specifier), late.promise])) as Module; // a namespace is a record of its exports
  } finally {
    clearTimeout(timer);
  }
}

/** A package as a file in the folder `from` would import it. */
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
