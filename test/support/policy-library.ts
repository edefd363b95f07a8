/** The policies of deploy/examples/library, compiled. */
import { join } from 'node:path';

import { compileNative, type NativeOptions } from '../../src/admission/native/native-policy.ts';
import type { NativeCheck } from '../../src/admission/native/native-check.ts';
import { readObjects } from '../../src/cli/review/input.ts';
import { createKinds } from '../../src/cli/review/kinds.ts';
import { compilePolicies } from '../../src/cli/review/policies.ts';
import { createStorage } from '../../src/sandbox/machinery/storage/storage.ts';

export const LIBRARY = join(import.meta.dirname, '..', '..', 'deploy', 'examples', 'library');

const OPTIONS: NativeOptions = { ownNamespace: 'gatehouse-system', restorers: [] };

export interface LibraryPolicy {
  readonly name: string;
  readonly checks: readonly NativeCheck[];
}

/** The policies in a folder, with who can enforce each check. */
export function compileFolder(folder: string): readonly LibraryPolicy[] {
  const objects = readObjects([folder], { recursive: false, standardInput: () => '' });
  const kinds = createKinds(objects, createStorage());
  const environment = { ownNamespace: OPTIONS.ownNamespace, matchConditions: true };
  return compilePolicies(objects, kinds, environment).map((policy) => ({
    name: policy.name,
    checks: compileNative(policy, OPTIONS).checks,
  }));
}
