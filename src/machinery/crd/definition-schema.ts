import { ANYTHING, type Schema } from '../schema/schema.ts';

// No field is `required` and no value is an `enum`: validateDefinition reports these problems, as the API server
// does for its built-in kinds.

const string = (description: string): Schema => ({ type: 'string', description });
const boolean = (description: string): Schema => ({ type: 'boolean', description });
const list = (items: Schema, description: string): Schema => ({
  type: 'array',
  description,
  items,
  'x-kubernetes-list-type': 'atomic',
});
const object = (properties: Readonly<Record<string, Schema>>, description: string): Schema => ({
  type: 'object',
  description,
  properties,
});
const STRING: Schema = { type: 'string' };

const names = (description: string): Schema =>
  object(
    {
      plural: string('The plural, in lower case: what the resource is called in paths.'),
      singular: string('The singular, in lower case. Defaults to the kind in lower case.'),
      shortNames: list(STRING, 'Short names for the resource, in lower case.'),
      kind: string('The kind of the objects, as their field `kind` has it.'),
      listKind: string('The kind of lists of the objects. Defaults to the kind and `List`.'),
      categories: list(STRING, 'Groups of resources that clients may ask for together, such as `all`.'),
    },
    description,
  );

const column: Schema = object(
  {
    name: string('The heading of the column.'),
    type: string('An OpenAPI type, or `date`.'),
    format: string('An OpenAPI format.'),
    description: string('What the column shows.'),
    priority: {
      type: 'integer',
      format: 'int32',
      description: 'Columns above 0 are shown only where there is room.',
    },
    jsonPath: string('A JSONPath, evaluated against each object.'),
  },
  'A column of tables, in addition to the name.',
);

const scale: Schema = object(
  {
    specReplicasPath: string('Path under `.spec` to the number of replicas that is wanted.'),
    statusReplicasPath: string('Path under `.status` to the actual number of replicas.'),
    labelSelectorPath: string('Path under `.status` or `.spec` to a label selector in text form.'),
  },
  'Serves `scale`, which reads and writes an autoscaling/v1 Scale.',
);

const version: Schema = object(
  {
    name: string('The name of the version, such as `v1`.'),
    served: { ...boolean('Whether the version can be reached.'), default: false },
    storage: { ...boolean('Whether objects are stored in this version. One version is.'), default: false },
    deprecated: boolean('Whether clients of this version receive a warning.'),
    deprecationWarning: string('The warning, in place of the default one.'),
    schema: object(
      {
        openAPIV3Schema: {
          ...ANYTHING,
          type: 'object',
          description: 'The structural schema of the objects.',
        },
      },
      'What objects of this version look like.',
    ),
    subresources: object(
      {
        status: {
          ...ANYTHING,
          type: 'object',
          description: 'Serves `status`, and lets the main resource ignore it.',
        },
        scale,
      },
      'The subresources of this version.',
    ),
    additionalPrinterColumns: list(column, 'Columns of tables. Without any there is one with the age.'),
    selectableFields: list(
      object({ jsonPath: string('A path in dots to a string, boolean or integer.') }, 'A field.'),
      'Fields that field selectors may use; 8 at most.',
    ),
  },
  'A version of the resource.',
);

const clientConfig: Schema = object(
  {
    url: string('Where the webhook is, as https://host:port/path. Either this or `service` is set.'),
    service: object(
      {
        namespace: string('The namespace of the Service.'),
        name: string('The name of the Service.'),
        path: string('The path at which the webhook is called.'),
        port: { type: 'integer', format: 'int32', description: 'The port of the Service.', default: 443 },
      },
      'The Service of a webhook in the cluster.',
    ),
    caBundle: {
      type: 'string',
      format: 'byte',
      description: 'PEM certificates that vouch for the webhook; the system ones when absent.',
    },
  },
  'How the webhook is reached.',
);

const conversion: Schema = object(
  {
    strategy: string('`None` changes only apiVersion; `Webhook` asks a webhook.'),
    webhook: object(
      {
        clientConfig,
        conversionReviewVersions: list(
          STRING,
          'Versions of ConversionReview that the webhook takes, the best first.',
        ),
      },
      'The webhook that converts; set with the strategy `Webhook`.',
    ),
  },
  'How objects are converted between versions.',
);

const condition: Schema = object(
  {
    type: string('Established, NamesAccepted or Terminating, among others.'),
    status: string('True, False or Unknown.'),
    lastTransitionTime: { type: 'string', format: 'date-time', description: 'When the status last changed.' },
    reason: string('One word for the reason of the last change.'),
    message: string('What the last change was about, for people.'),
    observedGeneration: {
      type: 'integer',
      format: 'int64',
      description: 'The generation that the condition was set for.',
    },
  },
  'One aspect of the state of the definition.',
);

/** A CustomResourceDefinition of apiextensions.k8s.io/v1. */
export const definitionSchema: Schema = object(
  {
    spec: object(
      {
        group: string('The API group of the resource, a domain.'),
        scope: string('`Cluster` or `Namespaced`.'),
        names: names('What the resource and its kind are called.'),
        versions: list(version, 'All versions of the resource, served or not.'),
        conversion,
        preserveUnknownFields: boolean('Deprecated: true is refused.'),
      },
      'What the resource is to look like.',
    ),
    status: object(
      {
        conditions: {
          ...list(condition, 'Aspects of the state of the definition.'),
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['type'],
        },
        acceptedNames: names(
          'The names that are served. They differ from those in the spec while these are taken.',
        ),
        storedVersions: list(STRING, 'Every version in which objects may be stored.'),
        observedGeneration: {
          type: 'integer',
          format: 'int64',
          description: 'The generation that the status is about.',
        },
      },
      'How far the API server is with it.',
    ),
  },
  'Makes the API server serve a resource of your own. Its name is the plural and the group, joined by a dot.',
);
