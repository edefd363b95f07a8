/** Folders with handlers, written by the test that uses them: as a user has them, importing the package by its name. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** @param modules source by file name; each begins with the import of `defineHandler` */
export function writeHandlers(modules: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-handlers-'));
  for (const [file, source] of Object.entries(modules)) {
    writeFileSync(join(folder, file), `import { defineHandler } from 'gatehouse';\n${source}`);
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
