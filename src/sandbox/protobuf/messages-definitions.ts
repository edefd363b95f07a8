import { WEBHOOK_CLIENT_CONFIG } from './messages-admission.ts';
import { OBJECT_META } from './messages-meta.ts';
import { RAW_JSON, TIME } from './values.ts';
import { BOOL, DOUBLE, INT, TEXT, given, later, list, map, message, spelt, type Message } from './wire.ts';

// apiextensions.k8s.io/v1.

const SCHEMA = later(() => JSON_SCHEMA_PROPS);

const SCHEMA_OR_BOOL = spelt(
  message({ allows: [1, BOOL], schema: [2, SCHEMA] }),
  ({ schema, allows = false }) => schema ?? allows,
  null,
);

const SCHEMA_OR_LIST = spelt(
  message({ schema: [1, SCHEMA], jSONSchemas: [2, list(SCHEMA)] }),
  ({ schema, jSONSchemas = null }) => jSONSchemas ?? schema ?? null,
  null,
);

const SCHEMA_OR_STRINGS = spelt(
  message({ schema: [1, SCHEMA], property: [2, list(TEXT)] }),
  ({ schema, property = null }) => property ?? schema ?? null,
  null,
);

const EXTERNAL_DOCUMENTATION = message({ description: [1, TEXT], url: [2, TEXT] });

const VALIDATION_RULE = message({
  rule: [1, given(TEXT)],
  message: [2, TEXT],
  messageExpression: [3, TEXT],
  reason: [4, given(TEXT)],
  fieldPath: [5, TEXT],
  optionalOldSelf: [6, given(BOOL)],
});

const JSON_SCHEMA_PROPS: Message = message({
  id: [1, TEXT],
  $schema: [2, TEXT],
  $ref: [3, given(TEXT)],
  description: [4, TEXT],
  type: [5, TEXT],
  format: [6, TEXT],
  title: [7, TEXT],
  default: [8, RAW_JSON],
  maximum: [9, given(DOUBLE)],
  exclusiveMaximum: [10, BOOL],
  minimum: [11, given(DOUBLE)],
  exclusiveMinimum: [12, BOOL],
  maxLength: [13, given(INT)],
  minLength: [14, given(INT)],
  pattern: [15, TEXT],
  maxItems: [16, given(INT)],
  minItems: [17, given(INT)],
  uniqueItems: [18, BOOL],
  multipleOf: [19, given(DOUBLE)],
  enum: [20, list(RAW_JSON)],
  maxProperties: [21, given(INT)],
  minProperties: [22, given(INT)],
  required: [23, list(TEXT)],
  items: [24, SCHEMA_OR_LIST],
  allOf: [25, list(SCHEMA)],
  oneOf: [26, list(SCHEMA)],
  anyOf: [27, list(SCHEMA)],
  not: [28, SCHEMA],
  properties: [29, map(SCHEMA)],
  additionalProperties: [30, SCHEMA_OR_BOOL],
  patternProperties: [31, map(SCHEMA)],
  dependencies: [32, map(SCHEMA_OR_STRINGS)],
  additionalItems: [33, SCHEMA_OR_BOOL],
  definitions: [34, map(SCHEMA)],
  externalDocs: [35, EXTERNAL_DOCUMENTATION],
  example: [36, RAW_JSON],
  nullable: [37, BOOL],
  'x-kubernetes-preserve-unknown-fields': [38, given(BOOL)],
  'x-kubernetes-embedded-resource': [39, BOOL],
  'x-kubernetes-int-or-string': [40, BOOL],
  'x-kubernetes-list-map-keys': [41, list(TEXT)],
  'x-kubernetes-list-type': [42, given(TEXT)],
  'x-kubernetes-map-type': [43, given(TEXT)],
  'x-kubernetes-validations': [44, list(VALIDATION_RULE)],
});

const COLUMN = message({
  name: [1, given(TEXT)],
  type: [2, given(TEXT)],
  format: [3, TEXT],
  description: [4, TEXT],
  priority: [5, INT],
  jsonPath: [6, given(TEXT)],
});

const SCALE = message({
  specReplicasPath: [1, given(TEXT)],
  statusReplicasPath: [2, given(TEXT)],
  labelSelectorPath: [3, given(TEXT)],
});

const VERSION = message({
  name: [1, given(TEXT)],
  served: [2, given(BOOL)],
  storage: [3, given(BOOL)],
  deprecated: [7, BOOL],
  deprecationWarning: [8, given(TEXT)],
  schema: [4, message({ openAPIV3Schema: [1, JSON_SCHEMA_PROPS] })],
  subresources: [5, message({ status: [1, message({})], scale: [2, SCALE] })],
  additionalPrinterColumns: [6, list(COLUMN)],
  selectableFields: [9, list(message({ jsonPath: [1, given(TEXT)] }))],
});

const NAMES = message({
  plural: [1, given(TEXT)],
  singular: [2, TEXT],
  shortNames: [3, list(TEXT)],
  kind: [4, given(TEXT)],
  listKind: [5, TEXT],
  categories: [6, list(TEXT)],
});

const CONVERSION = message({
  strategy: [1, given(TEXT)],
  webhook: [
    2,
    message({ clientConfig: [2, WEBHOOK_CLIENT_CONFIG], conversionReviewVersions: [3, list(TEXT)] }),
  ],
});

const SPEC = message({
  group: [1, given(TEXT)],
  names: [3, NAMES],
  scope: [4, given(TEXT)],
  versions: [7, list(VERSION)],
  conversion: [9, CONVERSION],
  preserveUnknownFields: [10, BOOL],
});

const CONDITION = message({
  type: [1, given(TEXT)],
  status: [2, given(TEXT)],
  lastTransitionTime: [3, TIME],
  reason: [4, TEXT],
  message: [5, TEXT],
  observedGeneration: [6, INT],
});

const STATUS = message({
  conditions: [1, list(CONDITION)],
  acceptedNames: [2, NAMES],
  storedVersions: [3, list(TEXT)],
  observedGeneration: [4, INT],
});

export const CUSTOM_RESOURCE_DEFINITION = message({
  metadata: [1, OBJECT_META],
  spec: [2, SPEC],
  status: [3, STATUS],
});
