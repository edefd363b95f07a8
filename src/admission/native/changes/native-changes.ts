/** Defaults and mutations of a policy: a MutatingAdmissionPolicy. */
import type { CompiledPolicy } from '../../policy/compiled-policy.ts';
import { splitResource } from '../../policy/match/resource-pattern.ts';
import { inWebhook, type NativeCheck } from '../native-check.ts';
import { paramsProblem, readsOwnNamespace } from '../native-params.ts';
import { unknownFieldProblem } from './built-in-fields.ts';
import { orderProblem } from './change-order.ts';
import { droppedProblem } from './dropped-fields.ts';
import { defaultPatches, defaultProblem } from './native-defaults.ts';
import { compileNativeMutation } from './native-mutations.ts';
import { repeatProblem } from './repeatable.ts';

type Change = CompiledPolicy['defaults'][number] | CompiledPolicy['mutations'][number];

function readsParams(change: Change): boolean {
  if ('change' in change) return change.change.reads.params || change.condition?.reads.params === true;
  return change.kind === 'expression' && change.expression.reads.params;
}

/** Whether the MutatingAdmissionPolicy needs params. */
export const changesReadParams = ({ defaults, mutations }: CompiledPolicy): boolean =>
  [...defaults, ...mutations].some(readsParams);

/** The API server skips a policy while its params are missing. */
function paramsProblemOf(policy: CompiledPolicy): string | undefined {
  if (!changesReadParams(policy)) return undefined;
  if (readsOwnNamespace(policy))
    return 'its params are in the namespace of each object, and no probe can show that the API server reads them';
  return [...policy.defaults, ...policy.mutations].every(readsParams)
    ? paramsProblem(policy)
    : 'only some of its changes read params: the API server would skip all of them while the params are missing';
}

/** All changes of a policy have one judge: each sees what those before it have changed. */
export function changeChecks(
  policy: CompiledPolicy,
  others: readonly CompiledPolicy[],
): readonly NativeCheck[] {
  const { defaults, mutations, restore } = policy;
  if (defaults.length + mutations.length === 0) return [];
  const compiled = mutations.map((mutation) => ({
    mutation,
    native: compileNativeMutation(policy, mutation),
  }));
  const patches = compiled.flatMap(({ native }) => (native.kind === 'compiled' ? [native] : []));
  const ofDefaults = defaults
    .map((one) => defaultProblem(policy, one))
    .find((problem) => problem !== undefined);
  const parts = [
    ...(defaults.length === 0
      ? []
      : [{ check: 'defaults', own: ofDefaults, texts: defaults.map((rule) => defaultPatches(rule)) }]),
    ...compiled.map(({ mutation, native }) => ({
      check: `mutation ${mutation.name}`,
      own: restore.skipsMutations ? SKIPPED : native.kind === 'webhook' ? native.reason : undefined,
      texts: native.kind === 'compiled' ? [native.text] : [],
    })),
  ];
  const first = parts.find(({ own }) => own !== undefined);
  const ofAll =
    first === undefined
      ? (scopeProblem(policy) ??
        paramsProblemOf(policy) ??
        orderProblem(policy, others) ??
        droppedProblem(policy) ??
        unknownFieldProblem(policy) ??
        repeatProblem(
          policy,
          patches.map((one) => one.patches),
        ))
      : `${first.check} stays in the webhook, and only one judge keeps the order of changes`;
  return parts.map(({ check, own, texts }) => {
    const reason = own ?? ofAll;
    if (reason !== undefined) return inWebhook(check, reason);
    return { check, by: 'APIServer', part: 'changes', validations: [], mutations: texts };
  });
}

const SKIPPED = 'a restore may skip it: set restore.mutations to Apply, if it may change restored objects';

function scopeProblem(policy: CompiledPolicy): string | undefined {
  const { resources, matchConditions, failurePolicy } = policy.match;
  if (matchConditions.length > 0 && failurePolicy === 'Ignore')
    return 'failurePolicy Ignore lets requests pass whose matchConditions fail, and the API server would refuse them';
  if (!resources.every((one) => ['', 'status'].includes(splitResource(one).subResource)))
    return 'it names a subresource other than status, whose objects may have another kind';
  return undefined;
}
