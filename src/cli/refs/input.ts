/** The flags of `gatehouse refs`, and the kinds that policies connect. */
import { readFileSync } from 'node:fs';

import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/objects.ts';
import { governed } from '../../runtime/policies/policy-kinds.ts';
import { refuse, type ReadOptions } from '../review/input.ts';
import type { GraphBuilder } from './graph.ts';

export interface RefsFlags {
  readonly namespace?: string;
  readonly filename?: readonly string[];
  readonly policies?: readonly string[];
  readonly recursive?: boolean;
  readonly depth: number;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly output: 'tree' | 'json' | 'dot';
}

export interface Loaded {
  readonly graph: GraphBuilder;
  readonly notes: string[];
}

/** The namespace of Gatehouse decides only what policies may govern there: nothing. */
export const OWN_NAMESPACE = 'gatehouse-system';

export const readOptions = (recursive: boolean): ReadOptions => ({
  recursive,
  standardInput: () => readFileSync(0, 'utf8'),
});

/** @throws UnusableInput if no policy has a reference */
export function connecting(policies: readonly CompiledPolicy[]): readonly CompiledPolicy[] {
  const found = policies.filter(({ references }) => references.length > 0);
  refuse(found.length === 0 ? ['no AdmissionPolicy has a reference: pass policies with -p'] : []);
  return found;
}

export const kindsOf = (policies: readonly CompiledPolicy[]): readonly GroupResource[] =>
  uniqueBy(
    policies.flatMap((policy) => [...governed(policy), ...policy.references.map(({ target }) => target)]),
    groupResourceName,
  );
