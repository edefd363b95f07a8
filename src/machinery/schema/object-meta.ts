import { memoizeWeak } from '../../json/json.ts';
import * as s from '../kinds/schema-builders.ts';
import type { ResourceType } from '../resource-type.ts';
import type { Schema } from './schema.ts';

const TIME: Schema = { ...s.TIME, nullable: true };

const OWNER_REFERENCE: Schema = {
  type: 'object',
  'x-kubernetes-map-type': 'atomic',
  required: ['apiVersion', 'kind', 'name', 'uid'],
  properties: {
    apiVersion: s.STRING,
    blockOwnerDeletion: s.BOOLEAN,
    controller: s.BOOLEAN,
    kind: s.STRING,
    name: s.STRING,
    uid: s.STRING,
  },
};

const MANAGED_FIELDS_ENTRY = s.object({
  apiVersion: s.STRING,
  fieldsType: s.STRING,
  fieldsV1: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  manager: s.STRING,
  operation: s.STRING,
  subresource: s.STRING,
  time: TIME,
});

/** `metadata` of every kind. @see https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/ */
export const OBJECT_META = s.object({
  annotations: s.STRINGS_BY_KEY,
  creationTimestamp: TIME,
  deletionGracePeriodSeconds: s.INT64,
  deletionTimestamp: TIME,
  finalizers: { ...s.STRINGS, 'x-kubernetes-list-type': 'set', 'x-kubernetes-patch-strategy': 'merge' },
  generateName: s.STRING,
  generation: s.INT64,
  labels: s.STRINGS_BY_KEY,
  managedFields: s.listOf(MANAGED_FIELDS_ENTRY),
  name: s.STRING,
  namespace: s.STRING,
  ownerReferences: s.keyedList(OWNER_REFERENCE, ['uid']),
  resourceVersion: s.STRING,
  selfLink: s.STRING,
  uid: s.STRING,
});

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
