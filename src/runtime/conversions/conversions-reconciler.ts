/** Compiles each ConversionPolicy. A version that does not compile leaves the previous one in force. */
import { isDeepStrictEqual } from 'node:util';
import { compileConversion, type CompiledConversion } from '../../admission/conversion/compile.ts';
import {
  CONVERSION_REASONS,
  type ConversionProblem,
  type ConversionSubject,
  type Converter,
  type ConverterLookup,
} from '../../admission/conversion/converter.ts';
import { type Definition, sameForConversion } from '../../admission/conversion/definition.ts';
import type { ConversionPolicy } from '../../api/conversion-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { type GroupResource, groupResourceName } from '../../json/kube-object.ts';
import type { Store } from '../../kube/store.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, type Reconcile, requeueIn } from '../controller.ts';
import type { PolicyProblem, CompiledState } from '../policies/compiled-state.ts';
import { createListeners } from '../listeners.ts';

export type DefinitionRead =
  { readonly kind: 'read'; readonly definition: Definition | undefined } | { readonly kind: 'unread' };

interface ConversionsOptions {
  readonly policies: Pick<Store<ConversionPolicy>, 'get' | 'list'>;
  readonly definition: (target: GroupResource, signal: AbortSignal) => Promise<DefinitionRead>;
  readonly handler: (target: GroupResource) => string | undefined;
  readonly registry: Pick<ConversionRegistry, 'get' | 'set' | 'remove'>;
  readonly now: () => Date;
  readonly log: Log;
}

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
  const state = { generation: policy.metadata.generation ?? 0, target, definition };
  const rival = rivalOf(policy, options);
  if (rival !== undefined) {
    const message = `${name} is converted by ${rival} already: delete one of the two`;
    return { ...state, inForce: undefined, problem: { reason: 'Conflict', message } };
  }
  if (definition === undefined) {
    const [reason, why]: readonly [string, string] =
      read.kind === 'unread'
        ? ['DefinitionNotRead', 'could not be read yet']
        : ['UnknownTarget', 'does not exist: create it'];
    const problem: PolicyProblem = { reason, message: `the CustomResourceDefinition ${name} ${why}` };
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

/** The last usable version, compiled again: an API version may have come or gone, and schemas may have changed. */
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

export interface ConversionState extends CompiledState<CompiledConversion> {
  readonly target: GroupResource;
  readonly definition: Definition | undefined;
}

export type ConversionRegistry = ReturnType<typeof createConversionRegistry>;

/** `kindOf` is undefined when the resource does not exist or is not known yet; `notCompiled`, before the first list. */
export function createConversionRegistry(
  handlers: readonly Converter[],
  kindOf: (target: GroupResource) => string | undefined,
  notCompiled: (group: string) => readonly string[] | undefined,
) {
  rejectDuplicates(handlers);
  const states = new Map<string, ConversionState>();
  const listeners = createListeners<[name: string]>();

  const lookUp = (subject: ConversionSubject): ConverterLookup => {
    const { group, kind, definition } = subject;
    const concerns = (target: GroupResource) =>
      target.group === group &&
      (definition === undefined ? kindOf(target) === kind : groupResourceName(target) === definition);
    const converter =
      handlers.find(({ target }) => concerns(target)) ??
      [...states.values()].find(({ inForce }) => inForce !== undefined && concerns(inForce.converter.target))
        ?.inForce?.converter;
    if (converter !== undefined) return found(converter, kindOf(converter.target), subject);

    const waitingFor = notCompiled(group);
    if (waitingFor === undefined || waitingFor.length > 0) {
      const what = waitingFor === undefined ? 'the ConversionPolicies' : waitingFor.join(', ');
      return { kind: 'unready', message: `this replica has not read ${what} yet` };
    }
    const broken = [...states].find(([, state]) => state.problem !== undefined && concerns(state.target));
    if (broken?.[1].problem?.reason === 'DefinitionNotRead')
      return { kind: 'unready', message: brokenMessage(broken) };
    return { kind: 'none', message: broken === undefined ? unknownMessage(subject) : brokenMessage(broken) };
  };

  return {
    set: (name: string, state: ConversionState): void => {
      states.set(name, state);
      listeners.tell(name);
    },
    remove: (name: string): void => {
      if (states.delete(name)) listeners.tell(name);
    },
    get: (name: string): ConversionState | undefined => states.get(name),
    lookUp,
    subscribe: listeners.add,
  };
}

function found(
  converter: Converter,
  known: string | undefined,
  { kind, definition }: ConversionSubject,
): ConverterLookup {
  if (known === undefined || known === kind) return { kind: 'found', converter };
  const path = `/convert/${definition ?? ''}`;
  return {
    kind: 'none',
    message:
      `the API server asked at ${path}, which converts ${known}, for objects of kind ${kind}: ` +
      'correct spec.conversion.webhook.clientConfig.service.path of their CustomResourceDefinition',
  };
}

function unknownMessage({ group, kind }: ConversionSubject): string {
  return (
    `kind ${kind} of ${group}: no ConversionPolicy or handler found; create one, ` +
    'or set spec.conversion of its CustomResourceDefinition to another webhook or to strategy: None'
  );
}

function brokenMessage([name, { problem }]: readonly [string, ConversionState]): string {
  return `ConversionPolicy ${name} is not in force: ${problem?.reason ?? ''}: ${problem?.message ?? ''}`;
}

function rejectDuplicates(handlers: readonly Converter[]): void {
  const byTarget = Map.groupBy(handlers, ({ target }) => groupResourceName(target));
  for (const [target, duplicates] of byTarget) {
    if (duplicates.length < 2) continue;
    const names = duplicates.map(({ name }) => name).join(' and ');
    throw new Error(`${names} both convert ${target}: remove one of them`);
  }
}
