import { isEqual } from '../../json/json.ts';
import { toJson, type ApiObject } from '../api-object.ts';
import { spec, text } from '../fields.ts';
import { ApiFailure, internalError, listed } from '../failure.ts';
import { decodeObject } from '../objects/decode.ts';
import type { Notes } from '../request.ts';
import type { ResourceType } from '../resource-type.ts';
import { withObject, type AdmissionAttributes } from '../webhooks/admission-review.ts';
import { converted, questionIn, type AdmissionWorld } from '../webhooks/call-hook.ts';
import { applyMutation, MutationFailure } from './apply-mutation.ts';
import { evaluateConditions, evaluationOf, outcome } from './evaluate-policy.ts';
import type { Mutation } from './compile-policy.ts';
import {
  boundPolicies,
  compiledPolicy,
  isExemptFromPolicies,
  namespaceOf,
  noAuthorizer,
  paramsOf,
  seenType,
  type BoundPolicy,
} from './policy-admission.ts';

/** What the MutatingAdmissionPolicies remember between the two rounds of one request. */
export interface MutatingRounds {
  /** Policies that want to run again, as far as nothing has changed since they ran. */
  readonly invoked: Set<string>;
  readonly again: Set<string>;
  output: ApiObject | undefined;
  isFirst: boolean;
  changed: boolean;
}

export const newRounds = (): MutatingRounds => ({
  invoked: new Set(),
  again: new Set(),
  output: undefined,
  isFirst: true,
  changed: false,
});

interface Request {
  readonly api: AdmissionWorld;
  readonly attributes: AdmissionAttributes;
  readonly complete: (object: ApiObject) => ApiObject;
  readonly notes: Notes;
  readonly rounds: MutatingRounds;
}

/** Evaluates the stored MutatingAdmissionPolicies (mutating/dispatcher.go of apiserver's policy plugin). */
export async function mutateByPolicies(request: Request): Promise<ApiObject | undefined> {
  const { api, attributes, rounds } = request;
  if (isExemptFromPolicies(attributes.type)) return attributes.object;
  if (!rounds.isFirst && !isSame(attributes.object, rounds.output)) reinvoke(rounds);
  const invocations = await invocationsOf(api, attributes, !rounds.isFirst);
  let { object } = attributes;
  const failures: Denial[] = [];
  for (const invocation of invocations) {
    if ('message' in invocation) failures.push(invocation);
    else if (rounds.isFirst || rounds.again.has(invocation.key)) {
      const invoked = await invoke(invocation, { ...request, attributes: withObject(attributes, object) });
      failures.push(...invoked.failures);
      if (invoked.evaluated && invocation.reinvokes) rounds.invoked.add(invocation.key);
      if (!isSame(invoked.object, object)) {
        reinvoke(rounds);
        rounds.changed = true;
      }
      object = invoked.object;
    }
  }
  const [first] = failures;
  if (first !== undefined) throw refusal(attributes, first, failures);
  rounds.output = object;
  rounds.isFirst = false;
  return object;
}

function reinvoke({ invoked, again }: MutatingRounds): void {
  for (const key of invoked) again.add(key);
  invoked.clear();
}

const isSame = (a: ApiObject | undefined, b: ApiObject | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && isEqual(toJson(a), toJson(b)));

interface Denial {
  readonly message: string;
  readonly reason: 'Invalid' | 'Forbidden';
}

interface Invocation {
  readonly key: string;
  readonly policy: ApiObject;
  readonly binding: string;
  readonly params: ApiObject | undefined;
  readonly seen: ResourceType;
  readonly reinvokes: boolean;
}

/** The policies that match the request as it is now: what they change does not change which of them match. */
async function invocationsOf(
  api: AdmissionWorld,
  attributes: AdmissionAttributes,
  isAgain: boolean,
): Promise<readonly (Invocation | Denial)[]> {
  const found: (Invocation | Denial)[] = [];
  for (const bound of boundPolicies(api, 'mutating')) {
    const reinvokes = text(spec(bound.policy), 'reinvocationPolicy') === 'IfNeeded';
    if (reinvokes || !isAgain) found.push(...(await invocationsIn(api, bound, attributes, reinvokes)));
  }
  return found;
}

async function invocationsIn(
  api: AdmissionWorld,
  { policy, binding }: BoundPolicy,
  attributes: AdmissionAttributes,
  reinvokes: boolean,
): Promise<readonly (Invocation | Denial)[]> {
  const seen = seenType({ policy, binding }, attributes, api);
  if (seen === undefined) return [];
  const [policyName, bindingName] = [policy.metadata.name ?? '', binding.metadata.name ?? ''];
  const found = await paramsOf(spec(policy), spec(binding), attributes.namespace, api);
  if (found.kind === 'broken') {
    if (compiledPolicy(policy).ignoresFailures) return [];
    const denied = `denied request: ${found.message}`;
    return [
      {
        reason: 'Forbidden',
        message: found.isOfPolicy
          ? `policy ${JSON.stringify(policyName)} ${denied}`
          : `policy '${policyName}' with binding '${bindingName}' ${denied}`,
      },
    ];
  }
  return found.params.map((params) => ({
    key: JSON.stringify([policyName, bindingName, params?.metadata.namespace, params?.metadata.name]),
    policy,
    params,
    seen,
    reinvokes,
    binding: bindingName,
  }));
}

/** Each mutation sees the changes of earlier ones, even if one of them failed. */
async function invoke(
  { policy, binding, params, seen }: Invocation,
  { api, attributes, complete, notes }: Request,
) {
  const compiled = compiledPolicy(policy);
  const failures: Denial[] = [];
  const fail = (message: string): void => {
    const who = `policy '${policy.metadata.name}' with binding '${binding}'`;
    if (!compiled.ignoresFailures)
      failures.push({ message: `${who} denied request: ${message}`, reason: 'Invalid' });
  };
  const namespaceObject = namespaceOf(attributes, api);
  const authorize = api.authorizerOf?.(attributes.user) ?? noAuthorizer;
  let current = attributes;
  const evaluationNow = async () => {
    const question = await questionIn(api, seen, current);
    return { question, evaluation: evaluationOf(compiled, question, namespaceObject, authorize, params) };
  };
  const match = evaluateConditions(compiled, (await evaluationNow()).evaluation);
  if (match.kind === 'error') fail(listed(match.messages));
  if (match.kind !== 'hits') return { object: attributes.object, failures, evaluated: false };
  for (const mutation of attributes.object === undefined ? [] : compiled.mutations) {
    const { question, evaluation } = await evaluationNow();
    const { object: before } = question;
    const result = outcome(mutation.expression, evaluation);
    if (result.kind !== 'value') fail(result.message);
    if (result.kind !== 'value' || before === undefined) continue;
    try {
      const view = attributes.shownAs;
      const type = view ?? seen;
      const after = applyMutation(mutation, result.value, {
        object: before,
        type,
        isView: view !== undefined && view.kind !== 'Binding',
      });
      if (!isSame(after, before))
        current = withObject(
          attributes,
          complete(await inVersion(api, attributes, decoded(after, type, mutation, notes))),
        );
    } catch (error) {
      if (!(error instanceof MutationFailure)) throw error;
      fail(error.message);
    }
  }
  return { object: current.object, failures, evaluated: true };
}

function decoded(object: ApiObject, type: ResourceType, { patchType }: Mutation, notes: Notes): ApiObject {
  if (type.custom) return object;
  try {
    return decodeObject(toJson(object), type, 'Strict', notes);
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    const why = error.message
      .replace(/^.* cannot be handled as an? \w+: /, '')
      .replace(/in scheme$/, 'in scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"');
    if (patchType === 'JSONPatch') throw internalError(why);
    const kind = `${type.group}/${type.version}, Kind=${type.kind}`;
    throw new MutationFailure(`unable to convert unstructured object to ${kind}: ${why}`, { cause: error });
  }
}

async function inVersion(
  api: AdmissionWorld,
  { type, shownAs }: AdmissionAttributes,
  object: ApiObject,
): Promise<ApiObject> {
  if (shownAs !== undefined) return object;
  const [back = object] = await converted(api.convert([object], type));
  return back;
}

function refusal(
  { type: { group, resource }, name }: AdmissionAttributes,
  { message, reason }: Denial,
  all: readonly Denial[],
): ApiFailure {
  return new ApiFailure(403, reason, message, {
    name,
    ...(group === '' ? {} : { group }),
    kind: resource,
    causes: all.map((one) => ({ message: one.message })),
  });
}
