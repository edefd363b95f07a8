import type { Command } from 'commander';

import type { TypesFlags } from './types.ts';

export function addGenerate(program: Command): void {
  const generate = program
    .command('generate')
    .description('generate TypeScript from CustomResourceDefinitions, and the other way round');
  generate
    .command('types')
    .description('print TypeScript interfaces for the kinds of CustomResourceDefinitions')
    .argument('<paths...>', 'CustomResourceDefinitions: files, folders or - (standard input)')
    .option('-R, --recursive', 'read folders recursively')
    .option('-o, --out <file>', 'write this file instead of the standard output')
    .addHelpText('after', TYPES_HELP)
    .action(async (paths: readonly string[], flags: TypesFlags) => {
      const { types } = await import('./types.ts');
      process.exitCode = await types(paths, flags);
    });
  generate
    .command('crd')
    .description('print the CustomResourceDefinitions of kinds that a module defines with defineKind')
    .argument('<module>', 'a TypeScript or JavaScript module')
    .option('-o, --out <file>', 'write this file instead of the standard output')
    .addHelpText('after', CRD_HELP)
    .action(async (module: string, flags: { readonly out?: string }) => {
      const { crd } = await import('./crd.ts');
      process.exitCode = await crd(module, flags);
    });
}

const TYPES_HELP = `
Each served version has an interface. The newest has the name of the kind, and is the type that get, list,
apply and watching of controllers use. Fields with a default are not optional: the API server sets them.

Examples:
  gatehouse generate types crds/ --out handlers/kinds.ts
  kubectl get crd users.people.example.com -o yaml | gatehouse generate types -

Exit code: 0 success, 2 a CustomResourceDefinition cannot be read or would be refused by an API server.`;

const CRD_HELP = `
The module exports the results of defineKind. Their schemas are JSON Schema, for example of TypeBox or of
z.toJSONSchema(…) of Zod. The status also has what controllers write: conditions, observedGeneration, progress.

Example:
  gatehouse generate crd kinds/user.ts --out crds/user.yaml

Exit code: 0 success, 2 the module cannot be loaded, or a schema has no form for an API server.`;
