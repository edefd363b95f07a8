/** Processes a write like an API server, and calls policies and handlers through the webhook configurations of Gatehouse. */
import { randomUUID } from 'node:crypto';

import type { WebhookConfiguration } from '../../admission/webhooks/webhook.ts';
import type { webhookConfigurations } from '../../admission/webhooks/webhook-configurations.ts';
import type { ConvertObjects } from '../../machinery/crd/convert.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { complete } from '../../machinery/objects/decode.ts';
import { restrictToEndpoint } from '../../machinery/objects/subresources.ts';
import type { ResourceRegistry, ResourceType } from '../../machinery/resource-type.ts';
import type { Storage } from '../../machinery/storage/stored.ts';
import { createAdmission } from '../../machinery/webhooks/admission.ts';
import type { AdmissionAttributes } from '../../machinery/webhooks/admission-review.ts';
import {
  validateCreate,
  validateUpdate,
  withGeneration,
  withStatusOf,
} from '../../machinery/objects/validate.ts';
import type { CallWebhook } from '../../machinery/webhooks/hook.ts';

export interface Write extends Pick<AdmissionAttributes, 'type' | 'user'> {
  readonly operation: AdmissionAttributes['operation'];
  readonly object: ApiObject | undefined;
  readonly old: ApiObject | undefined;
}

export interface Mutated {
  readonly mutated: ApiObject;
  readonly prepared: ApiObject;
}

export const SILENT = { warn: () => undefined, annotate: () => undefined };

const GROUP = 'admissionregistration.k8s.io';

export function createApiServer(
  registry: ResourceRegistry,
  storage: Storage,
  convert: ConvertObjects,
  { mutating, validating }: ReturnType<typeof webhookConfigurations>,
) {
  const install = (resource: string, configuration: WebhookConfiguration) => {
    const object = configuration as unknown as ApiObject; // JSON with apiVersion, kind and metadata
    storage.create({ group: GROUP, resource }, object);
  };
  install('mutatingwebhookconfigurations', mutating);
  install('validatingwebhookconfigurations', validating);
  const admission = (call: CallWebhook) =>
    createAdmission({ registry, storage, convert, newUid: randomUUID, call });
  return {
    inVersion: async (object: ApiObject, type: ResourceType): Promise<ApiObject> =>
      (await convert([object], type))[0] ?? object,
    mutate: async (write: Write, call: CallWebhook): Promise<Mutated | undefined> => {
      const attributes = attributesOf(write, write.object);
      const mutated = await admission(call).mutate(attributes, (next) => complete(next, write.type), SILENT);
      return mutated === undefined ? undefined : { mutated, prepared: prepare(write, mutated) };
    },
    validate: async (write: Write, object: ApiObject | undefined, call: CallWebhook): Promise<void> => {
      if (object !== undefined) {
        if (write.old === undefined) validateCreate(object, write.type);
        else validateUpdate(object, write.old, write.type, '');
      }
      await admission(call).validate(attributesOf(write, object), SILENT);
    },
  };
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
    user,
    dryRun: false,
    ...(object === undefined ? {} : { object }),
    ...(old === undefined ? {} : { oldObject: old }),
    options: { kind, apiVersion: 'meta.k8s.io/v1' },
  };
}

function prepare({ type, operation, old }: Write, object: ApiObject): ApiObject {
  if (operation === 'UPDATE' && old !== undefined) {
    const { uid, resourceVersion, creationTimestamp, deletionTimestamp, generation } = old.metadata;
    const kept = withMeta(object, { uid, resourceVersion, creationTimestamp, deletionTimestamp, generation });
    return withGeneration(restrictToEndpoint(kept, old, type, ''), old, type);
  }
  const named = withMeta(type.hasStatus ? withStatusOf(object, undefined) : object, {
    // Drops the metadata of another cluster.
    uid: undefined,
    resourceVersion: undefined,
    creationTimestamp: undefined,
    deletionTimestamp: undefined,
    deletionGracePeriodSeconds: undefined,
    name: object.metadata.name ?? generatedName(object),
  });
  return withGeneration(named, undefined, type);
}

/** The API server appends five random characters; `xxxxx` is a placeholder. */
const generatedName = ({ metadata: { generateName = '' } }: ApiObject): string | undefined =>
  generateName === '' ? undefined : `${generateName.slice(0, 58)}xxxxx`;
