import { isEqual, parseJson } from '../../admission/json.ts';
import { ofJson, toJson, type ApiObject } from '../api-object.ts';
import { ApiFailure, internalError } from '../failure.ts';
import { applyJsonPatch } from '../patch/json-patch.ts';
import type { Admission, AdmissionAttributes, Api, Notes } from '../pipeline/context.ts';
import {
  admissionRequest,
  admissionReview,
  refusalOf,
  verdictOf,
  type Question,
  type Verdict,
} from './admission-review.ts';
import type { WebhookCaller } from './call.ts';
import { hooksOf, type Hook } from './hook.ts';
import { isExempt, matchingType } from './match.ts';

const USER_AGENT = 'kube-apiserver-admission';
const GROUP = 'admissionregistration.k8s.io';

export interface AdmissionDeps extends Pick<Api, 'registry' | 'storage' | 'convert' | 'newUid'> {
  readonly caller: WebhookCaller;
}

/** The admission webhooks of the stored configurations, called as k8s.io/apiserver/pkg/admission/plugin/webhook does. */
export function createAdmission(deps: AdmissionDeps): Admission {
  const hooks = (resource: string): readonly Hook[] =>
    deps.storage.list({ group: GROUP, resource }).items.flatMap(hooksOf);
  return {
    mutate: async (given, complete, notes) => {
      if (isExempt(given.type)) return given.object;
      const all = hooks('mutatingwebhookconfigurations');
      const attributes = withNamespace(given);
      const first = await mutatingRound(deps, all, attributes, complete, notes, 0);
      if (first.again.length === 0) return first.object;
      const second = { ...attributes, ...(first.object === undefined ? {} : { object: first.object }) };
      return (await mutatingRound(deps, first.again, second, complete, notes, 1)).object;
    },
    validate: async (given, notes) => {
      if (isExempt(given.type)) return;
      const attributes = withNamespace(given);
      const asked = hooks('validatingwebhookconfigurations').map(async (hook) => {
        await ask(deps, hook, attributes, notes, 'validating');
      });
      const results = await Promise.allSettled(asked);
      for (const result of results) if (result.status === 'rejected') throw result.reason as Error;
    },
  };
}

/** Webhooks are told that a Namespace lies in itself. */
function withNamespace(attributes: AdmissionAttributes): AdmissionAttributes {
  const { type, name } = attributes;
  return type.group === '' && type.resource === 'namespaces'
    ? { ...attributes, namespace: name }
    : attributes;
}

interface Round {
  readonly object: ApiObject | undefined;
  /** Webhooks that want to see what later ones made of the object. */
  readonly again: readonly Hook[];
}

async function mutatingRound(
  deps: AdmissionDeps,
  hooks: readonly Hook[],
  attributes: AdmissionAttributes,
  complete: (object: ApiObject) => ApiObject,
  notes: Notes,
  round: number,
): Promise<Round> {
  let { object } = attributes;
  const again = new Set<Hook>();
  const asked = new Set<Hook>();
  for (const [index, hook] of hooks.entries()) {
    const now: AdmissionAttributes = object === undefined ? attributes : { ...attributes, object };
    const outcome = await ask(deps, hook, now, notes, 'mutating');
    if (outcome === undefined) continue;
    const changed = await patched(deps, hook, now, outcome, complete);
    const mutated =
      changed !== undefined && object !== undefined && !isEqual(toJson(changed), toJson(object));
    notes.annotate(
      `mutation.webhook.admission.k8s.io/round_${round}_index_${index}`,
      JSON.stringify({ configuration: hook.configuration, webhook: hook.name, mutated }),
    );
    if (mutated) {
      object = changed;
      for (const earlier of asked) again.add(earlier);
      asked.clear();
    }
    if (hook.reinvokes) asked.add(hook);
  }
  return { object, again: hooks.filter((hook) => again.has(hook)) };
}

interface Outcome {
  readonly question: Question;
  readonly verdict: Verdict;
}

/** The answer of a webhook that is concerned; undefined when it is not, or when its failure is to be ignored. */
async function ask(
  deps: AdmissionDeps,
  hook: Hook,
  attributes: AdmissionAttributes,
  notes: Notes,
  phase: 'mutating' | 'validating',
): Promise<Outcome | undefined> {
  const seen = matchingType(hook, attributes, deps);
  if (seen === undefined) return undefined;
  const inVersion = async (object: ApiObject | undefined) =>
    object === undefined ? undefined : (await deps.convert([object], seen))[0];
  const question: Question = {
    uid: deps.newUid(),
    version: hook.reviewVersions.find((version) => version === 'v1' || version === 'v1beta1') ?? 'v1',
    attributes,
    seen,
    object: await inVersion(attributes.object),
    oldObject: await inVersion(attributes.oldObject),
  };
  try {
    if (!conditionsHold(hook, question)) return undefined;
    const verdict = await callHook(deps, hook, question, phase === 'mutating');
    for (const [key, value] of verdict.auditAnnotations) notes.annotate(`${hook.name}/${key}`, value);
    for (const warning of verdict.warnings) notes.warn(warning);
    if (!verdict.allowed) throw refusalOf(hook.name, verdict.status);
    return { question, verdict };
  } catch (error) {
    if (error instanceof ApiFailure) throw error;
    if (hook.ignoresFailures) {
      notes.annotate(`failed-open.${phase}.webhook.admission.k8s.io/round_0_index_0`, hook.name);
      return undefined;
    }
    const why = error instanceof Error ? error.message : 'unknown';
    throw internalError(`failed calling webhook ${JSON.stringify(hook.name)}: ${why}`);
  }
}

async function callHook(
  deps: AdmissionDeps,
  hook: Hook,
  question: Question,
  mutating: boolean,
): Promise<Verdict> {
  if (question.attributes.dryRun && hook.sideEffects !== 'None' && hook.sideEffects !== 'NoneOnDryRun') {
    throw new ApiFailure(
      400,
      'BadRequest',
      `admission webhook ${JSON.stringify(hook.name)} does not support dry run`,
    );
  }
  const answer = await deps.caller
    .call(hook.client, admissionReview(question), hook.timeoutSeconds * 1_000, USER_AGENT)
    .catch((error: unknown) => {
      throw new Error(`failed to call webhook: ${error instanceof Error ? error.message : ''}`, {
        cause: error,
      });
    });
  return verdictOf(answer, question, mutating, parseJson);
}

/**
 * @throws Error when a condition cannot be evaluated and no other one is false
 */
function conditionsHold({ conditions }: Hook, question: Question): boolean {
  if (conditions.length === 0) return true;
  const bindings = {
    object: question.object === undefined ? null : toJson(question.object),
    oldObject: question.oldObject === undefined ? null : toJson(question.oldObject),
    request: admissionRequest(question),
  };
  const errors: string[] = [];
  for (const { name, program } of conditions) {
    try {
      if (program.evaluate(bindings) !== true) return false;
    } catch (error) {
      errors.push(`${name}: ${error instanceof Error ? error.message : ''}`);
    }
  }
  if (errors.length > 0) throw new Error(`match conditions could not be evaluated: ${errors.join(', ')}`);
  return true;
}

/**
 * The object with the webhook's patch, in the version of the request.
 *
 * @throws ApiFailure 500 when the patch does not apply: that is no failure to call, and the failure policy has no say
 */
async function patched(
  deps: AdmissionDeps,
  hook: Hook,
  { type }: AdmissionAttributes,
  { question, verdict }: Outcome,
  complete: (object: ApiObject) => ApiObject,
): Promise<ApiObject | undefined> {
  if (verdict.patch === undefined || question.object === undefined) return undefined;
  const before = question.object;
  let after: ApiObject;
  try {
    after = ofJson(applyJsonPatch(toJson(before), verdict.patch));
  } catch (error) {
    throw internalError(
      `webhook ${JSON.stringify(hook.name)} sent a patch that does not apply: ${error instanceof Error ? error.message : ''}`,
    );
  }
  if (after.apiVersion !== before.apiVersion || after.kind !== before.kind) {
    throw internalError(`webhook ${JSON.stringify(hook.name)} may not change apiVersion or kind`);
  }
  const [back = after] = await deps.convert([after], type);
  return complete(back);
}
