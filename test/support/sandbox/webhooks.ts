import type { AdmissionAttributes } from '../../../src/machinery/webhooks/admission-review.ts';
import { placeOf } from '../../../src/machinery/storage/stored.ts';
import type { JsonObject, JsonValue } from '../../../src/json/json.ts';
import { ofJson, type ApiObject } from '../../../src/machinery/api-object.ts';
import { typeOf, TYPES } from './built-in-objects.ts';
import { createRegistry } from '../../../src/machinery/registry.ts';
import type { ResourceType } from '../../../src/machinery/resource-type.ts';
import { createStorage } from '../../../src/machinery/storage/storage.ts';
import { createAdmission } from '../../../src/machinery/webhooks/admission.ts';
import { hooksOf, type Hook } from '../../../src/machinery/webhooks/hook.ts';

export const CONFIG_MAPS: ResourceType = typeOf('v1 ConfigMap');

const object = (apiVersion: string, kind: string, metadata: JsonObject, more: JsonObject = {}): ApiObject =>
  ofJson({ apiVersion, kind, metadata, ...more });

export const configMap = (metadata: JsonObject = {}, data: JsonObject = {}): ApiObject =>
  object('v1', 'ConfigMap', { name: 'a', namespace: 'shop', ...metadata }, { data });

export const entry = (changes: JsonObject = {}): JsonObject => ({
  name: 'hook.example.com',
  clientConfig: { url: 'https://localhost/hook' },
  rules: [
    { operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], scope: '*' },
  ],
  failurePolicy: 'Fail',
  matchPolicy: 'Equivalent',
  sideEffects: 'None',
  timeoutSeconds: 10,
  admissionReviewVersions: ['v1'],
  ...changes,
});

const configuration = (kind: 'Mutating' | 'Validating', webhooks: readonly JsonObject[]) =>
  object('admissionregistration.k8s.io/v1', `${kind}WebhookConfiguration`, { name: 'hooks' }, { webhooks });

export function hook(changes: JsonObject = {}): Hook {
  const [only] = hooksOf(configuration('Validating', [entry(changes)]));
  if (only === undefined) throw new Error('a configuration with one entry must have one webhook');
  return only;
}

/** A storage with the namespace `shop`. */
export function createWebhookStorage() {
  const storage = createStorage();
  const registry = createRegistry(TYPES, storage);
  const add = (type: ResourceType, created: ApiObject) => storage.create(placeOf(type), created);
  add(typeOf('v1 Namespace'), object('v1', 'Namespace', { name: 'shop', labels: { team: 'blue' } }));
  const install = (kind: 'Mutating' | 'Validating', webhooks: readonly JsonObject[]) => {
    const type = typeOf(`admissionregistration.k8s.io/v1 ${kind}WebhookConfiguration`);
    add(type, configuration(kind, webhooks));
  };
  return { storage, registry, install };
}

export const attributes = (changes: Partial<AdmissionAttributes> = {}): AdmissionAttributes => ({
  operation: 'CREATE',
  type: CONFIG_MAPS,
  subresource: '',
  namespace: 'shop',
  name: 'a',
  object: configMap(),
  user: { username: 'alice', groups: ['system:authenticated'] },
  dryRun: false,
  options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
  ...changes,
});

export interface Asked {
  readonly uid: string;
  readonly object: JsonObject;
  readonly [key: string]: JsonValue;
}

export type Answer = (request: Asked) => JsonObject | Error | { readonly raw: JsonValue };

export function createWebhookAdmission(answers: Readonly<Record<string, Answer>>) {
  const world = createWebhookStorage();
  const asked: { readonly path: string; readonly request: Asked }[] = [];
  const annotations: Record<string, string> = {};
  let uids = 0;
  const admission = createAdmission({
    ...world,
    convert: (objects) => Promise.resolve(objects),
    newUid: () => `uid-${++uids}`,
    call: ({ url = '' }, review) => {
      const path = new URL(url).pathname.slice(1);
      const request = review.request as Asked; // a review that the sandbox wrote
      asked.push({ path, request });
      const answer = answers[path]?.(request) ?? new Error('no answer is defined for this webhook');
      if (answer instanceof Error) return Promise.reject(answer);
      if ('raw' in answer) return Promise.resolve(answer.raw ?? null);
      const { apiVersion = '', kind = '' } = review;
      return Promise.resolve({ apiVersion, kind, response: { uid: request.uid, ...answer } });
    },
  });
  const notes = {
    warn: () => undefined,
    annotate: (key: string, value: string) => {
      annotations[key] = value;
    },
  };
  return { ...world, admission, notes, asked, annotations };
}

export const patch = (...operations: readonly JsonObject[]): JsonObject => ({
  allowed: true,
  patchType: 'JSONPatch',
  patch: Buffer.from(JSON.stringify(operations)).toString('base64'),
});
