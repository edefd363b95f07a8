/**
 * On every replica: ConversionPolicy → compiled and converting. A version that does not compile leaves the one before it in force;
 * a replica that has just started finds that one in `status.inForce`.
 */
import { isDeepStrictEqual } from 'node:util';

import { compileConversion, type CompiledConversion } from '../../admission/conversion/compile.ts';
import { CONVERSION_REASONS, type ConversionProblem } from '../../admission/conversion/conversion-problem.ts';
import { sameForConversion, type Definition } from '../../admission/conversion/definition.ts';
import type { ConversionPolicy } from '../../api/conversion-policy.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { ConversionRegistry, ConversionState } from './conversion-registry.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile } from '../controller.ts';

/** `unread`: nobody can tell yet whether there is one. */
export type DefinitionRead =
  { readonly kind: 'read'; readonly definition: Definition | undefined } | { readonly kind: 'unread' };

export interface ConversionsDeps {
  readonly policy: (name: string) => ConversionPolicy | undefined;
  readonly policies: () => readonly ConversionPolicy[];
  /** Starts to watch the CustomResourceDefinition if nobody did; whoever watches tells of its changes. */
  readonly definition: (target: GroupResource, signal: AbortSignal) => Promise<DefinitionRead>;
  /** The name of the handler that converts these objects, if one does. */
  readonly handler: (target: GroupResource) => string | undefined;
  readonly registry: Pick<ConversionRegistry, 'get' | 'set' | 'remove'>;
  readonly now: () => Date;
  readonly log: Log;
}

/** A CustomResourceDefinition that could not be read in time. */
const RETRY_MS = 5_000;

export function createConversionsReconciler(deps: ConversionsDeps): Reconcile {
  return async (name, signal) => {
    const policy = deps.policy(name);
    if (policy === undefined) {
      deps.registry.remove(name);
      return GONE;
    }
    const before = deps.registry.get(name);
    const read = await deps.definition(targetOf(policy), signal);
    const state = judge(policy, before, read, deps);
    if (!isSame(before, state)) {
      deps.registry.set(name, state);
      report(name, state, deps.log);
    }
    return read.kind === 'unread' ? requeueIn(RETRY_MS, deps.now()) : AWAIT_CHANGE;
  };
}

export const targetOf = ({ spec }: ConversionPolicy): GroupResource => ({
  group: spec.target.apiGroup,
  resource: spec.target.resource,
});

type Problem = NonNullable<ConversionState['problem']>;

function judge(
  policy: ConversionPolicy,
  before: ConversionState | undefined,
  read: DefinitionRead,
  deps: ConversionsDeps,
): ConversionState {
  const target = targetOf(policy);
  const name = groupResourceName(target);
  const definition = read.kind === 'read' ? read.definition : undefined;
  const state = { generation: generationOf(policy), target, definition };
  const rival = rivalOf(policy, deps);
  if (rival !== undefined) {
    const message = `${name} is converted by ${rival} already: delete one of the two`;
    return { ...state, inForce: undefined, problem: { reason: 'Conflict', message } };
  }
  if (definition === undefined) {
    const problem: Problem =
      read.kind === 'unread'
        ? {
            reason: 'DefinitionNotRead',
            message: `the CustomResourceDefinition ${name} could not be read yet`,
          }
        : { reason: 'UnknownTarget', message: `there is no CustomResourceDefinition ${name}: create it` };
    return { ...state, inForce: before?.inForce, problem };
  }
  const { usable, problems } = compileConversion(policy, definition);
  if (problems.length === 0) return { ...state, inForce: usable, problem: undefined };
  return { ...state, inForce: fallBack(policy, before, definition), problem: toProblem(problems) };
}

/** What converts these objects instead. Of two policies the older one stays, on every replica. */
function rivalOf(policy: ConversionPolicy, { policies, handler }: ConversionsDeps): string | undefined {
  const target = targetOf(policy);
  const handlerName = handler(target);
  if (handlerName !== undefined) return handlerName;
  const older = policies()
    .filter((other) => isDeepStrictEqual(targetOf(other), target))
    .toSorted(byAge)[0];
  return older === undefined || older.metadata.name === policy.metadata.name
    ? undefined
    : `ConversionPolicy ${older.metadata.name ?? ''}`;
}

function byAge(one: ConversionPolicy, other: ConversionPolicy): number {
  const [a, b] = [one, other].map(
    ({ metadata }) => `${metadata.creationTimestamp ?? ''} ${metadata.name ?? ''}`,
  );
  return (a ?? '') < (b ?? '') ? -1 : 1;
}

/**
 * The last usable version, as far as it goes: a version that the CustomResourceDefinition has got or lost since must not stop the
 * conversion between the others. Compiled anew, because what a version can hold may have changed too.
 */
function fallBack(
  policy: ConversionPolicy,
  before: ConversionState | undefined,
  definition: Definition,
): CompiledConversion | undefined {
  const last = before?.inForce ?? policy.status?.inForce;
  if (last === undefined) return undefined;
  const previous: ConversionPolicy = {
    ...policy,
    metadata: { ...policy.metadata, generation: last.generation },
    spec: last.spec as ConversionPolicy['spec'], // it was one when it was noted, and is compiled here
  };
  if (!isDeepStrictEqual(targetOf(previous), targetOf(policy))) return undefined;
  return compileConversion(previous, definition).usable ?? before?.inForce;
}

function toProblem(problems: readonly ConversionProblem[]): Problem {
  const reason =
    CONVERSION_REASONS.find((one) => problems.some((problem) => problem.reason === one)) ?? 'InvalidPolicy';
  return { reason, message: problems.map(({ where, message }) => `${where}: ${message}`).join('; ') };
}

/** By what they were made of: two compilations are never equal. */
function isSame(before: ConversionState | undefined, after: ConversionState): boolean {
  if (before === undefined) return false;
  const { inForce: old, ...rest } = before;
  const { inForce: next, ...others } = after;
  if (!isDeepStrictEqual(rest, others)) return false;
  if (old === undefined || next === undefined) return old === next;
  return (
    old.generation === next.generation &&
    sameForConversion(old.definition, next.definition) &&
    isDeepStrictEqual(old.spec, next.spec)
  );
}

function report(name: string, { generation, inForce, problem }: ConversionState, log: Log): void {
  if (problem === undefined) {
    log.info({ policy: name, generation }, 'conversion policy in force');
  } else {
    log.warn(
      { policy: name, reason: problem.reason, problem: problem.message, inForce: inForce?.generation },
      'conversion policy is not in force',
    );
  }
}

const generationOf = ({ metadata }: ConversionPolicy): number => metadata.generation ?? 0;
