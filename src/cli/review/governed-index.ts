/** Who names which target and who holds which value, among what was read. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { needsSketches, sketchOf } from '../../admission/policy/governed-summary.ts';
import { targetKey } from '../../admission/policy/references/read-references.ts';
import type { Claims, GovernedIndex } from '../../admission/policy/world.ts';
import type { ObjectRef } from '../../json/kube-object.ts';
import { governed } from '../../runtime/policies/policies.ts';
import type { Contents } from './world.ts';

interface Sketches {
  /** By `targetKey`. */
  readonly referrers: ReadonlyMap<string, readonly ObjectRef[]>;
  /** By the name of the claim. */
  readonly holders: ReadonlyMap<string, readonly ObjectRef[]>;
}

/** @param contents must not change any more: each policy is looked up once */
export function indexGoverned({ list }: Pick<Contents, 'list'>): GovernedIndex {
  const known = new Map<CompiledPolicy, Sketches>();
  const sketchesOf = (policy: CompiledPolicy): Sketches => {
    const before = known.get(policy) ?? sketch(policy, list);
    known.set(policy, before);
    return before;
  };
  return {
    referrers: (target, policies) => {
      const found = policies.flatMap((policy) => sketchesOf(policy).referrers.get(targetKey(target)) ?? []);
      return [...new Map(found.map((ref) => [targetKey(ref), ref])).values()];
    },
    holders: (claim, policy) => sketchesOf(policy).holders.get(claim) ?? [],
  };
}

function sketch(policy: CompiledPolicy, list: Contents['list']): Sketches {
  const referrers = new Map<string, ObjectRef[]>();
  const holders = new Map<string, ObjectRef[]>();
  const add = (map: Map<string, ObjectRef[]>, key: string, ref: ObjectRef) => {
    const listed = map.get(key);
    if (listed === undefined) map.set(key, [ref]);
    else listed.push(ref);
  };
  if (!needsSketches(policy)) return { referrers, holders };
  for (const kind of governed(policy)) {
    for (const object of list(kind)) {
      const { name = '', namespace } = object.metadata ?? {};
      const ref = { ...kind, namespace, name };
      const { targets, claims } = sketchOf([policy], kind, object);
      for (const target of targets) add(referrers, target, ref);
      for (const claim of claims) add(holders, claim, ref);
    }
  }
  return { referrers, holders };
}

/** Nothing is claimed for good: who holds a value already is known from the objects. */
export const NO_CLAIMS: Claims = {
  read: () => Promise.resolve(undefined),
  create: (claim) => Promise.resolve(claim),
  replace: (claim) => Promise.resolve(claim),
  remove: () => Promise.resolve('removed'),
  settleMs: 0,
};
