/** Creates folders with handlers. As in a user's project, the handlers import the package by its name. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll } from 'vitest';

export function handlerFolder(modules: Readonly<Record<string, string>>): string {
  const folder = writeHandlers(modules);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** @param modules source by file name; `defineHandler` is already imported in each */
export function writeHandlers(modules: Readonly<Record<string, string>>): string {
  const withImport = (source: string) =>
    `import { defineHandler } from '@gatehouse-dev/gatehouse';\n${source}`;
  return writeModules(
    Object.fromEntries(Object.entries(modules).map(([file, source]) => [file, withImport(source)])),
  );
}

export function writeModules(modules: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-handlers-'));
  for (const [file, source] of Object.entries(modules)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), source);
  }
  return folder;
}

/** A handler for ConfigMaps with the label `case: <name>`. */
export function forCase(name: string, rest: string): string {
  return `
    export default defineHandler({
      match: {
        apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'],
        objectSelector: { matchLabels: { case: ${JSON.stringify(name)} } },
      },
      ${rest}
    });`;
}
