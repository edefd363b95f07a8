/** A controller of deploy/examples. Its module imports the package by its name, so only its own tsconfig knows its types. */
import { join } from 'node:path';

import type { Controller } from '../../src/controllers/controller.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');

export async function exampleController(name: string): Promise<Controller<never>> {
  const path = join(EXAMPLES, name, 'controllers', `${name}.ts`);
  return ((await import(path)) as { default: Controller<never> }).default; // each example has one
}
