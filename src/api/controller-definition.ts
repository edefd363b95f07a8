/** The schema of the argument of `defineController`. Each `problem` says what a field has to be. */
import Type from 'typebox';

import { valueIn } from '../json/json.ts';
import {
  aFunction,
  action,
  fieldProblems,
  label,
  name,
  oneOf,
  optional,
  readable,
  texts,
  unchecked,
} from './definition.ts';

const one = (item: ReturnType<typeof Type.String>, wanted: string) =>
  Type.Array(item, { minItems: 1, maxItems: 1, problem: `: write a list with one ${wanted}` });
const group = Type.String({ pattern: '^[-a-z0-9.]*$' });

/** Server-side apply and reads need one version, so that an object has the same fields everywhere. */
const watch = Type.Object(
  {
    apiGroups: one(group, 'API group, "" for the core group'),
    apiVersions: one(label, 'API version such as v1'),
    resources: one(label, 'plural such as users'),
  },
  { additionalProperties: false, problem: ': write an object with apiGroups, apiVersions and resources' },
);

const owned = Type.Object(
  {
    apiGroups: one(group, 'API group, "" for the core group'),
    apiVersions: one(label, 'API version such as v1'),
    resources: texts('plurals such as namespaces', label),
  },
  { additionalProperties: false },
);

const rule = Type.Object({ verbs: Type.Array(Type.String(), { minItems: 1 }) });

const source = Type.Object(
  {
    kind: readable,
    labelSelector: unchecked,
    when: action,
    map: aFunction({ problem: ': write a function that returns a list of { name, namespace }' }),
  },
  { additionalProperties: false },
);

const METRIC_NAME =
  '^(?!(gatehouse|process|nodejs|controller_runtime|workqueue|leader_election)_)[a-zA-Z_][a-zA-Z0-9_]*$';
const LABEL_NAME = '^(?!__|controller$|le$)[a-zA-Z_][a-zA-Z0-9_]*$';
const metric = Type.Object(
  {
    type: oneOf('counter', 'gauge', 'histogram'),
    help: Type.String({ minLength: 1 }),
    labels: optional(Type.Array(Type.String({ pattern: LABEL_NAME }))),
    buckets: optional(Type.Array(Type.Number(), { minItems: 1 })),
  },
  { additionalProperties: false },
);
const seconds = Type.Number({ minimum: 0.1, maximum: 86_400 });

const definition = Type.Object(
  {
    name: optional(name),
    watch,
    owns: optional(
      Type.Array(owned, {
        problem: ': write a list of objects with one apiGroup, one apiVersion, and resources',
      }),
    ),
    reads: optional(
      Type.Array(readable, { problem: ': write a list of kinds such as "datacenters.infra.example.com"' }),
    ),
    watches: optional(
      Type.Array(source, {
        problem: ': write a list of objects with a kind such as "secrets" and a function map',
      }),
    ),
    indexes: optional(
      Type.Record(Type.String(), aFunction(), { problem: ': write an object whose values are functions' }),
    ),
    when: action,
    rules: optional(Type.Array(rule, { problem: ': write a list of RBAC rules, each with verbs' })),
    writesStatus: optional(Type.Boolean({ problem: ': write true or false' })),
    leaderOnly: optional(Type.Boolean({ problem: ': write true or false' })),
    concurrency: optional(
      Type.Integer({ minimum: 1, maximum: 50, problem: ': write a number of objects, 1 to 50' }),
    ),
    rateLimit: optional(
      Type.Object(
        {
          passesPerSecond: Type.Number({
            exclusiveMinimum: 0,
            maximum: 1_000,
            problem: ': write a number above 0, up to 1000',
          }),
          burst: optional(
            Type.Integer({ minimum: 1, maximum: 10_000, problem: ': write a number of passes, 1 to 10000' }),
          ),
        },
        { additionalProperties: false, problem: ': write an object with passesPerSecond' },
      ),
    ),
    retry: optional(
      Type.Object(
        { baseSeconds: seconds, maxSeconds: seconds },
        { problem: ': write an object with baseSeconds and maxSeconds, 0.1 to 86400' },
      ),
    ),
    metrics: optional(
      Type.Refine(
        Type.Record(Type.String(), metric, {
          problem:
            ': write an object of { type: "counter", help, labels } by names such as users_synced_total; names of Gatehouse, prom-client and controller-runtime are taken, as are the labels controller and le',
        }),
        (given) => Object.keys(given as object).every((name) => new RegExp(METRIC_NAME).test(name)),
      ),
    ),
    finalizeTimeoutSeconds: optional(
      Type.Integer({ minimum: 1, maximum: 1e9, problem: ': write a whole number of seconds' }),
    ),
    timeoutSeconds: optional(
      Type.Integer({ minimum: 1, maximum: 600, problem: ': write a whole number of seconds, 1 to 600' }),
    ),
    reconcile: aFunction({ problem: ': write a function' }),
    finalize: action,
  },
  { additionalProperties: false, problem: 'write an object with watch and reconcile' },
);

export const controllerProblems = (value: unknown): readonly string[] => [
  ...fieldProblems(definition, value, ''),
  ...(valueIn(value, 'leaderOnly') === false ? replicaProblems(value) : []),
];

/** Replicas that all write would overwrite each other, and nothing fences them. */
const replicaProblems = (value: unknown): readonly string[] => [
  ...['owns', 'finalize']
    .filter((field) => valueIn(value, field) !== undefined)
    .map((field) => `${field}: remove it, because a controller with leaderOnly: false must not write`),
  ...(valueIn(value, 'writesStatus') === false
    ? []
    : ['writesStatus: write false, because a controller with leaderOnly: false must not write']),
];
