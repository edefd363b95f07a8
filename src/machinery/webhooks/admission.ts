import { messageOf } from '../../json/abort.ts';
import { isEqual, isJsonArray, parseJson, type JsonArray, type JsonValue } from '../../json/json.ts';
import { ofJson, toJson, type ApiObject } from '../api-object.ts';
import { internalError } from '../failure.ts';
import { applyJsonPatch } from '../patch/json-patch.ts';
import type { Notes } from '../request.ts';
import {
  JSON_PATCH,
  withObject,
  type AdmissionAttributes,
  type Question,
  type Verdict,
} from './admission-review.ts';
import { callFailure, CallFailure, hooksOf, type Hook } from './hook.ts';
import { callHook, converted, questionFor, type AdmissionWorld } from './call-hook.ts';
import { mutateByPolicies, newRounds } from '../policies/mutating-admission.ts';
import { validateByPolicies } from '../policies/policy-admission.ts';
import { isExempt } from './match.ts';

const GROUP = 'admissionregistration.k8s.io';

export interface Admission {
  /** Applies all mutating policies and webhooks; `complete` prunes and defaults after each patch. @throws ApiFailure */
  readonly mutate: (
    attributes: AdmissionAttributes,
    complete: (object: ApiObject) => ApiObject,
    notes: Notes,
  ) => Promise<ApiObject | undefined>;
  /** @throws ApiFailure */
  readonly validate: (attributes: AdmissionAttributes, notes: Notes) => Promise<void>;
}

/** Evaluates the stored admission policies, and calls webhooks the way k8s.io/apiserver/pkg/admission/plugin/webhook does. */
export function createAdmission(api: AdmissionWorld): Admission {
  const hooks = (resource: string): readonly Hook[] =>
    api.storage.list({ group: GROUP, resource }).items.flatMap(hooksOf);
  return {
    mutate: async (given, complete, notes) => {
      const all = isExempt(given.type) ? [] : hooks('mutatingwebhookconfigurations');
      const attributes = withNamespace(given);
      const context = { api, hooks: all, complete, notes };
      const rounds = newRounds();
      const byPolicies = (object: ApiObject | undefined) =>
        mutateByPolicies({ api, attributes: withObject(attributes, object), complete, notes, rounds });
      const shaped = await byPolicies(given.object);
      const first = await mutatingRound(context, withObject(attributes, shaped), undefined);
      const isFinal = !rounds.changed && first.object === shaped;
      const reshaped = isFinal ? first.object : await byPolicies(first.object);
      const again = reshaped === first.object ? first.again : first.all;
      if (again.size === 0) return reshaped;
      return (await mutatingRound(context, withObject(attributes, reshaped), again)).object;
    },
    validate: async (given, notes) => {
      await validateByPolicies(api, withNamespace(given), notes);
      if (isExempt(given.type)) return;
      await validatingRound(api, hooks('validatingwebhookconfigurations'), withNamespace(given), notes);
    },
  };
}

/** For webhooks, the namespace of a Namespace is the Namespace itself. */
function withNamespace(attributes: AdmissionAttributes): AdmissionAttributes {
  const { type, name } = attributes;
  return type.group === '' && type.resource === 'namespaces'
    ? { ...attributes, namespace: name }
    : attributes;
}

/** Calls all matching webhooks in parallel; the client receives the first refusal in order. */
async function validatingRound(
  api: AdmissionWorld,
  hooks: readonly Hook[],
  attributes: AdmissionAttributes,
  notes: Notes,
): Promise<void> {
  const concerned: { readonly hook: Hook; readonly question: Question }[] = [];
  for (const hook of hooks) {
    const question = await questionFor(api, hook, attributes);
    if (question !== undefined) concerned.push({ hook, question });
  }
  const asked = concerned.map(async ({ hook, question }, index) => {
    try {
      await callHook(api, hook, question, 'validating', notes);
    } catch (error) {
      failOpen(hook, error, notes, `failed-open.validating.webhook.admission.k8s.io/round_0_index_${index}`);
    }
  });
  for (const result of await Promise.allSettled(asked)) {
    if (result.status === 'rejected') throw result.reason as Error; // `failOpen` throws only errors
  }
}

interface MutatingContext {
  readonly api: AdmissionWorld;
  readonly hooks: readonly Hook[];
  readonly complete: (object: ApiObject) => ApiObject;
  readonly notes: Notes;
}

/** Calls webhooks in sequence, each with the changes of earlier ones. `all`: those to call again if a policy changes the object. */
async function mutatingRound(
  { api, hooks, complete, notes }: MutatingContext,
  attributes: AdmissionAttributes,
  only: ReadonlySet<Hook> | undefined,
) {
  let { object } = attributes;
  const again = new Set<Hook>(); // a later webhook changed the object
  const asked = new Set<Hook>();
  for (const [index, hook] of hooks.entries()) {
    const question = await questionFor(api, hook, withObject(attributes, object));
    if (question === undefined || only?.has(hook) === false) continue;
    const place = `mutation.webhook.admission.k8s.io/round_${only === undefined ? 0 : 1}_index_${index}`;
    let mutated = false;
    try {
      const verdict = await callHook(api, hook, question, 'mutating', notes);
      const changed = await patched(api, hook, attributes, question, verdict);
      if (changed !== undefined) {
        const next = complete(changed);
        mutated = object === undefined || !isEqual(toJson(next), toJson(object));
        object = next;
      }
    } catch (error) {
      failOpen(hook, error, notes, `failed-open.${place}`);
    } finally {
      notes.annotate(
        place,
        JSON.stringify({ configuration: hook.configuration, webhook: hook.name, mutated }),
      );
    }
    if (mutated) {
      for (const earlier of asked) again.add(earlier);
      asked.clear();
    }
    if (hook.reinvokes) asked.add(hook);
  }
  return { object, again, all: new Set([...again, ...asked]) };
}

/** Records that the failure of a webhook is ignored. @throws the error if it must not be ignored */
function failOpen(hook: Hook, error: unknown, notes: Notes, annotation: string): void {
  if (!(error instanceof CallFailure)) throw error;
  if (!hook.ignoresFailures) {
    throw internalError(`failed calling webhook ${JSON.stringify(hook.name)}: ${error.message}`);
  }
  notes.annotate(annotation, hook.name);
}

/** Undefined if the patch is empty. A patch that does not apply is no failure of the webhook: its policy does not count. */
async function patched(
  api: AdmissionWorld,
  { name }: Hook,
  { type, shownAs }: AdmissionAttributes,
  { object: before }: Question,
  { patch, patchType }: Verdict,
): Promise<ApiObject | undefined> {
  const operations = operationsOf(patch);
  if (operations.length === 0) return undefined;
  if (before === undefined) {
    const tried = `admission webhook ${JSON.stringify(name)} attempted to modify the object`;
    throw internalError(`${tried}, which is not supported for this operation`);
  }
  if (patchType !== JSON_PATCH) throw new CallFailure(`unsupported patch type ${JSON.stringify(patchType)}`);
  const after = appliedTo(before, operations);
  if (after.apiVersion !== before.apiVersion || after.kind !== before.kind) {
    throw internalError(`webhook ${JSON.stringify(name)} may not change apiVersion or kind`);
  }
  if (shownAs !== undefined) return after;
  const [back = after] = await converted(api.convert([after], type));
  return back;
}

function operationsOf(patch: string): JsonArray {
  if (patch === '') return [];
  const where = 'received undecodable patch in webhook response';
  let operations: JsonValue;
  try {
    operations = parseJson(patch);
  } catch (error) {
    throw callFailure(where, error);
  }
  if (operations === null) return [];
  if (!isJsonArray(operations)) throw new CallFailure(`${where}: a JSON Patch is a list of operations`);
  return operations;
}

function appliedTo(before: ApiObject, operations: JsonArray): ApiObject {
  try {
    return ofJson(applyJsonPatch(toJson(before), operations));
  } catch (error) {
    throw internalError(messageOf(error));
  }
}
