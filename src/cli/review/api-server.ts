/**
 * Processes a write like an API server: decoding, admission, validation and defaults, with the code of the sandbox.
 * Calls policies and handlers through the webhook configurations that Gatehouse would install.
 */
import { randomUUID } from 'node:crypto';

import type { JsonObject } from '../../json/json.ts';
import type { WebhookConfiguration } from '../../admission/webhooks/webhook.ts';
import type { ObjectRef } from '../../json/kube-object.ts';
import type { ConvertObjects } from '../../sandbox/machinery/crd/convert.ts';
import { withMeta, type ApiObject } from '../../sandbox/machinery/api-object.ts';
import { complete, decodeObject } from '../../sandbox/machinery/objects/decode.ts';
import { restrictToEndpoint } from '../../sandbox/machinery/objects/subresources.ts';
import type { ResourceRegistry, ResourceType } from '../../sandbox/machinery/resource-type.ts';
import type { Storage } from '../../sandbox/machinery/storage/stored.ts';
import { createAdmission } from '../../sandbox/machinery/webhooks/admission.ts';
import type { AdmissionAttributes } from '../../sandbox/machinery/webhooks/admission-review.ts';
import {
  validateCreate,
  validateUpdate,
  withGeneration,
  withStatusOf,
} from '../../sandbox/machinery/objects/validate.ts';
import type { WebhookCaller } from '../../sandbox/machinery/webhooks/call.ts';
import type { UserInfo } from '../../admission/review/request.ts';

export interface Write {
  readonly type: ResourceType;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  /** Undefined on DELETE. */
  readonly object: ApiObject | undefined;
  /** Undefined on CREATE. */
  readonly old: ApiObject | undefined;
  readonly user: UserInfo;
}

export type Call = WebhookCaller['call'];

export interface ApiServer {
  /** Converts an object to the version of `type`. @throws ApiFailure */
  readonly inVersion: (object: ApiObject, type: ResourceType) => Promise<ApiObject>;
  /** Undefined on DELETE. @throws ApiFailure */
  readonly mutate: (write: Write, call: Call) => Promise<Mutated | undefined>;
  /** Validates the result of `mutate` against the schema and the webhooks. @throws ApiFailure */
  readonly validate: (write: Write, prepared: ApiObject | undefined, call: Call) => Promise<void>;
}

export interface Mutated {
  /** The object after all mutating webhooks. */
  readonly mutated: ApiObject;
  /** The object with the fields that the API server sets. */
  readonly prepared: ApiObject;
}

export interface ApiServerParts {
  readonly registry: ResourceRegistry;
  /** Contains the CRDs, and the Namespaces for namespace selectors. */
  readonly storage: Storage;
  readonly convert: ConvertObjects;
  readonly webhooks: { readonly mutating: WebhookConfiguration; readonly validating: WebhookConfiguration };
}

const ADMISSION_GROUP = 'admissionregistration.k8s.io';

export function createApiServer({ registry, storage, convert, webhooks }: ApiServerParts): ApiServer {
  const install = (resource: string, configuration: WebhookConfiguration) => {
    const object = configuration as unknown as ApiObject; // JSON with apiVersion, kind and metadata
    storage.create({ group: ADMISSION_GROUP, resource }, object);
  };
  install('mutatingwebhookconfigurations', webhooks.mutating);
  install('validatingwebhookconfigurations', webhooks.validating);
  const admission = (call: Call) =>
    createAdmission({ registry, storage, convert, newUid: randomUUID, caller: { call } });
  return {
    inVersion: async (object, type) => (await convert([object], type))[0] ?? object,
    mutate: async (write, call) => {
      const { type } = write;
      const mutated = await admission(call).mutate(
        attributesOf(write, write.object),
        (next) => complete(next, type),
        SILENT,
      );
      return mutated === undefined ? undefined : { mutated, prepared: prepare(write, mutated) };
    },
    validate: async (write, object, call) => {
      if (object !== undefined) {
        if (write.old === undefined) validateCreate(object, write.type);
        else validateUpdate(object, write.old, write.type);
      }
      await admission(call).validate(attributesOf(write, object), SILENT);
    },
  };
}

/** The caller of the webhooks records their warnings. */
const SILENT = { warn: () => undefined, annotate: () => undefined };

/**
 * Decodes an object like the API server: pruned, and with the defaults of its CRD.
 *
 * @param namespace of namespaced objects without one
 * @param warn called for each field that is dropped
 * @throws ApiFailure when the object does not fit the type
 */
export function decode(
  object: JsonObject,
  type: ResourceType,
  namespace: string,
  warn: (text: string) => void,
): ApiObject {
  const decoded = decodeObject(object, type, 'Warn', { ...SILENT, warn });
  const own = decoded.metadata.namespace ?? '';
  if (!type.namespaced) return own === '' ? decoded : withMeta(decoded, { namespace: undefined });
  return own === '' ? withMeta(decoded, { namespace }) : decoded;
}

export function refOf({ group, resource }: ResourceType, { metadata }: ApiObject): ObjectRef {
  return { group, resource, namespace: metadata.namespace, name: metadata.name ?? '' };
}

function attributesOf(
  { type, operation, old, user }: Write,
  object: ApiObject | undefined,
): AdmissionAttributes {
  const { name = '', namespace = '' } = (object ?? old)?.metadata ?? {};
  const kind = { CREATE: 'CreateOptions', UPDATE: 'UpdateOptions', DELETE: 'DeleteOptions' }[operation];
  return {
    operation,
    type,
    subresource: '',
    namespace,
    name,
    ...(object === undefined ? {} : { object }),
    ...(old === undefined ? {} : { oldObject: old }),
    user,
    dryRun: false,
    options: { kind, apiVersion: 'meta.k8s.io/v1' },
  };
}

/** Sets the fields that the API server controls. */
function prepare({ type, operation, old }: Write, object: ApiObject): ApiObject {
  if (operation === 'UPDATE' && old !== undefined) {
    const { uid, resourceVersion, creationTimestamp, deletionTimestamp, generation } = old.metadata;
    const kept = withMeta(object, { uid, resourceVersion, creationTimestamp, deletionTimestamp, generation });
    return withGeneration(restrictToEndpoint(kept, old, type, ''), old, type);
  }
  const named = withMeta(type.hasStatus ? withStatusOf(object, undefined) : object, {
    ...asNew,
    name: object.metadata.name ?? generatedName(object),
  });
  return withGeneration(named, undefined, type);
}

/** Drops the metadata of another cluster from a new object. */
const asNew = {
  uid: undefined,
  resourceVersion: undefined,
  creationTimestamp: undefined,
  deletionTimestamp: undefined,
  deletionGracePeriodSeconds: undefined,
} as const;

/** The API server appends five random characters; `xxxxx` is a placeholder. */
const generatedName = ({ metadata: { generateName = '' } }: ApiObject): string | undefined =>
  generateName === '' ? undefined : `${generateName.slice(0, 58)}xxxxx`;
