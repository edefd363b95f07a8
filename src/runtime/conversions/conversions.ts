/**
 * On every replica: compiles ConversionPolicies and puts them in force. If a version does not compile, the previous
 * version stays in force. A replica that has just started reads the previous version from `status.inForce`.
 */
import { isDeepStrictEqual } from 'node:util';

import { compileConversion, type CompiledConversion } from '../../admission/conversion/compile.ts';
import { CONVERSION_REASONS, type ConversionProblem } from '../../admission/conversion/conversion-problem.ts';
import { sameForConversion, type Definition } from '../../admission/conversion/definition.ts';
import type { ConversionPolicy } from '../../api/conversion-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { Store } from '../../kube/store.ts';
import type { PolicyProblem } from '../policies/compiled-state.ts';
import type { ConversionRegistry, ConversionState } from './conversion-registry.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile } from '../controller.ts';

/** `unread`: the API server has not answered yet. */
export type DefinitionRead =
  { readonly kind: 'read'; readonly definition: Definition | undefined } | { readonly kind: 'unread' };

export interface ConversionsOptions {
  readonly policies: Pick<Store<ConversionPolicy>, 'get' | 'list'>;
  /** Reads the CustomResourceDefinition, and watches it from then on. */
  readonly definition: (target: GroupResource, signal: AbortSignal) => Promise<DefinitionRead>;
  /** The name of the handler that converts these objects, if one does. */
  readonly handler: (target: GroupResource) => string | undefined;
  readonly registry: Pick<ConversionRegistry, 'get' | 'set' | 'remove'>;
  readonly now: () => Date;
  readonly log: Log;
}

/** When to retry a CustomResourceDefinition that could not be read in time, in milliseconds. */
const RETRY_MS = 5_000;

export function createConversionsReconciler(options: ConversionsOptions): Reconcile {
  return async (name, signal) => {
    const policy = options.policies.get(name);
    if (policy === undefined) {
      options.registry.remove(name);
      return GONE;
    }
    const before = options.registry.get(name);
    const read = await options.definition(targetOf(policy), signal);
    const state = judge(policy, before, read, options);
    if (!isSame(before, state)) {
      options.registry.set(name, state);
      report(name, state, options.log);
    }
    return read.kind === 'unread' ? requeueIn(RETRY_MS, options.now()) : AWAIT_CHANGE;
  };
}

export const targetOf = ({ spec }: ConversionPolicy): GroupResource => toGroupResource(spec.target);

function judge(
  policy: ConversionPolicy,
  before: ConversionState | undefined,
  read: DefinitionRead,
  options: ConversionsOptions,
): ConversionState {
  const target = targetOf(policy);
  const name = groupResourceName(target);
  const definition = read.kind === 'read' ? read.definition : undefined;
  const state = { generation: generationOf(policy), target, definition };
  const rival = rivalOf(policy, options);
  if (rival !== undefined) {
    const message = `${name} is converted by ${rival} already: delete one of the two`;
    return { ...state, inForce: undefined, problem: { reason: 'Conflict', message } };
  }
  if (definition === undefined) {
    const problem: PolicyProblem =
      read.kind === 'unread'
        ? {
            reason: 'DefinitionNotRead',
            message: `the CustomResourceDefinition ${name} could not be read yet`,
          }
        : {
            reason: 'UnknownTarget',
            message: `the CustomResourceDefinition ${name} does not exist: create it`,
          };
    return { ...state, inForce: before?.inForce, problem };
  }
  const { usable, problems } = compileConversion(policy, definition);
  if (problems.length === 0) return { ...state, inForce: usable, problem: undefined };
  return { ...state, inForce: fallBack(policy, before, definition), problem: toProblem(problems) };
}

/** The handler or policy that converts these objects instead. Of two policies, every replica chooses the older one. */
function rivalOf(policy: ConversionPolicy, { policies, handler }: ConversionsOptions): string | undefined {
  const target = targetOf(policy);
  const handlerName = handler(target);
  if (handlerName !== undefined) return handlerName;
  const older = policies
    .list()
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
 * The last usable version of the policy. If the CustomResourceDefinition has gained or lost an API version since,
 * conversion between the others must continue. The policy is compiled again, because the schemas may have changed too.
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
    spec: last.spec as ConversionPolicy['spec'], // compiled below, which checks it
  };
  if (!isDeepStrictEqual(targetOf(previous), targetOf(policy))) return undefined;
  return compileConversion(previous, definition).usable ?? before?.inForce;
}

function toProblem(problems: readonly ConversionProblem[]): PolicyProblem {
  const reason =
    CONVERSION_REASONS.find((one) => problems.some((problem) => problem.reason === one)) ?? 'InvalidPolicy';
  return { reason, message: problems.map(({ where, message }) => `${where}: ${message}`).join('; ') };
}

/** Compares the inputs: two compilations are never equal. */
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
