/** The policies of deploy/examples/library, compiled, and the cases of their suites. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

import { compileNative, type NativeOptions } from '../../src/admission/native/native-policy.ts';
import type { NativeCheck } from '../../src/admission/native/native-check.ts';
import { readObjects } from '../../src/cli/review/input.ts';
import { createKinds } from '../../src/cli/review/kinds.ts';
import { compilePolicies } from '../../src/cli/review/policies.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { createStorage } from '../../src/machinery/storage/storage.ts';

export const LIBRARY = join(import.meta.dirname, '..', '..', 'deploy', 'examples', 'library');
export const SUITES = join(LIBRARY, 'tests');

const OPTIONS: NativeOptions = { ownNamespace: 'gatehouse-system', restorers: [], others: [] };

export interface LibraryPolicy {
  readonly name: string;
  readonly checks: readonly NativeCheck[];
}

export function compileFolder(folder: string): readonly LibraryPolicy[] {
  const objects = readObjects([folder], { recursive: false, standardInput: () => '' });
  const kinds = createKinds(objects, createStorage());
  return compilePolicies(objects, kinds, { ownNamespace: OPTIONS.ownNamespace }).map((policy) => ({
    name: policy.name,
    checks: compileNative(policy, OPTIONS).checks,
  }));
}

export interface LibraryCase {
  readonly name: string;
  readonly object: KubeObject;
  readonly old?: KubeObject;
  readonly operation?: 'DELETE';
  readonly expect: { readonly decision: 'allow' | 'deny' | 'unchecked'; readonly message?: string };
}

export const libraryCases = (): readonly LibraryCase[] =>
  readdirSync(SUITES)
    .filter((name) => name.endsWith('.yaml'))
    .flatMap((name) => {
      const suite = parse(readFileSync(join(SUITES, name), 'utf8'), { merge: true }) as {
        readonly tests: readonly LibraryCase[];
      }; // our own file; test/integration/policy-library.test.ts runs it
      return suite.tests;
    });

export function wordsOf(policy: string, check: string): readonly string[] {
  const [kind = '', ...name] = check.split(' ');
  const ofPolicy = `(policy ${policy})`;
  if (kind === 'schema') return [ofPolicy];
  if (kind === 'immutable') return [`${name.join(' ')}: was set and`, ofPolicy];
  return [`(${check.replace(/^unique /, 'unique value ')})`, ofPolicy];
}
