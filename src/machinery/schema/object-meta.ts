import { memoizeWeak } from '../../json/json.ts';
import type { ResourceType } from '../resource-type.ts';
import type { Schema } from './schema.ts';

const STRING: Schema = { type: 'string' };
const TIME: Schema = { type: 'string', format: 'date-time', nullable: true };
const MAP_OF_STRINGS: Schema = { type: 'object', additionalProperties: STRING };

const OWNER_REFERENCE: Schema = {
  type: 'object',
  'x-kubernetes-map-type': 'atomic',
  required: ['apiVersion', 'kind', 'name', 'uid'],
  properties: {
    apiVersion: STRING,
    blockOwnerDeletion: { type: 'boolean' },
    controller: { type: 'boolean' },
    kind: STRING,
    name: STRING,
    uid: STRING,
  },
};

const MANAGED_FIELDS_ENTRY: Schema = {
  type: 'object',
  properties: {
    apiVersion: STRING,
    fieldsType: STRING,
    fieldsV1: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    manager: STRING,
    operation: STRING,
    subresource: STRING,
    time: TIME,
  },
};

/** `metadata` of every kind. @see https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/ */
export const OBJECT_META: Schema = {
  type: 'object',
  properties: {
    annotations: MAP_OF_STRINGS,
    creationTimestamp: TIME,
    deletionGracePeriodSeconds: { type: 'integer', format: 'int64' },
    deletionTimestamp: TIME,
    finalizers: {
      type: 'array',
      items: STRING,
      'x-kubernetes-list-type': 'set',
      'x-kubernetes-patch-strategy': 'merge',
    },
    generateName: STRING,
    generation: { type: 'integer', format: 'int64' },
    labels: MAP_OF_STRINGS,
    managedFields: { type: 'array', items: MANAGED_FIELDS_ENTRY, 'x-kubernetes-list-type': 'atomic' },
    name: STRING,
    namespace: STRING,
    ownerReferences: {
      type: 'array',
      items: OWNER_REFERENCE,
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['uid'],
      'x-kubernetes-patch-strategy': 'merge',
      'x-kubernetes-patch-merge-key': 'uid',
    },
    resourceVersion: STRING,
    selfLink: STRING,
    uid: STRING,
  },
};

/** The schema of the whole object: the kind's own fields plus apiVersion, kind and metadata. */
export const wholeSchema = ({ schema }: Pick<ResourceType, 'schema'>): Schema => withTypeAndMeta(schema);

/** A CRD may restrict metadata.name and metadata.generateName; these restrictions stay. */
const withTypeAndMeta = memoizeWeak((schema: Schema): Schema => {
  const { apiVersion, kind, metadata, ...fields } = schema.properties ?? {};
  return {
    ...schema,
    type: 'object',
    properties: {
      apiVersion: { ...apiVersion, type: 'string' },
      kind: { ...kind, type: 'string' },
      metadata: {
        ...metadata,
        ...OBJECT_META,
        properties: { ...OBJECT_META.properties, ...metadata?.properties },
      },
      ...fields,
    },
  };
});
