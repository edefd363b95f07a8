/** Generated policies for the comparison of the webhook and the API server: checks of every kind, together. */
import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import type { JsonObject, JsonValue } from '../../../src/json/json.ts';
import { GROUP } from '../admission/policy.ts';
import type { Seeded } from '../seeded.ts';

type Spec = Partial<AdmissionPolicySpec>;
type Validate = NonNullable<Spec['validate']>;
type Rule = NonNullable<Validate['rules']>[number];
type Exception = NonNullable<Spec['exceptions']>[number];

const CONDITIONS = [
  ...['object.spec.tier in ["gold", "silver"]', 'object.spec.?units.orValue(1) <= 3', 'object.spec.enabled'],
  ...['object.spec.list.all(one, one != "a")', 'has(object.spec.note)', 'object != null'],
  ...[
    'request.dryRun == false',
    'object.spec.absent.deeper == 1',
    '!has(request.name) || request.name != "b"',
  ],
  ...['request.operation != "UPDATE" || object.spec.units >= oldObject.spec.units', 'variables.units > 2'],
  ...['request.userInfo.username != "mallory"', '!("guests" in request.userInfo.groups)', '!variables.many'],
  '!has(request.subResource) || request.userInfo.username != "ada"',
  'namespaceObject == null || namespaceObject.metadata.labels.env != "production"',
  '(object == null ? oldObject : object).spec.units < 5 // a comment',
  'dyn(object).?metadata.?labels[?"app"].orValue("") != "web"',
  'object.spec["in"] > 0 && object.spec.namespace < 1',
  ...['int(object.spec.units) % 2 == 0', 'object.spec["in"] + object.spec.units < 5'],
  ...[
    'type(object.spec.units) == int',
    'double(object.spec.units) / 2.0 < 2.0',
    'object.spec.units in [1, 3]',
  ],
  'request.kind.kind == "Server" && request.?namespace.orValue("") != ""',
  'object.metadata.?labels == oldObject.?metadata.?labels',
  'authorizer.requestResource.check("use").allowed()',
  'authorizer.requestResource.check("use").reason() != "" && authorizer.path("/x").check("get").allowed()',
  '!authorizer.serviceAccount("shop", "cart").group("").resource("secrets").check("get").allowed()',
  '["a", "b"].exists(one, !authorizer.group("").resource("pods").name(one).check("use").allowed())',
];
const OF_PARAMS = [
  ...['object.spec.units <= params.spec.most', 'object.spec.tier in params.spec.tiers', 'variables.most > 2'],
  'request.operation == "DELETE" || object.spec.?units.orValue(0) < variables.most',
];
const MESSAGES = ['is wrong', 'says "quotes", \\ and é 😀', 'a rather long message '.repeat(20).trim()];
const MADE = [
  ...['"has " + string(object.spec.?units.orValue(0))', 'object.spec.note'],
  '"by " + request.userInfo.username',
  ...['string(object.spec.?note.orValue(""))', '"units: " + string(variables.units)', 'variables.absent'],
];
const MADE_OF_PARAMS = '"one of " + params.spec.tiers.join(", ")';
const FIELDS = ['spec.tier', 'metadata.labels["example.com/rack"]', 'spec.list[0]'];
const PATHS = [...FIELDS, 'spec.units', 'spec', 'metadata.labels', 'spec.in', 'spec.namespace'];
const REASONS = ['Forbidden', 'Invalid', 'RequestEntityTooLarge'] as const;

const maybe = <T>(chance: Seeded, share: number, make: () => T): T | undefined =>
  chance.chance(share) ? make() : undefined;

const given = <T extends object>(value: T): { [Key in keyof T]: Exclude<T[Key], undefined> } =>
  Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as never;

const some = <T>(chance: Seeded, items: readonly T[], most: number): T[] =>
  chance.shuffle(items).slice(0, chance.below(most + 1));

function ruleFrom(chance: Seeded, index: number, conditions: readonly string[]): Rule {
  const expression = chance.pick(conditions);
  const made = MADE.filter((one) => !one.includes('absent'));
  if (conditions.some((one) => one.includes('params'))) made.push(MADE_OF_PARAMS);
  return given({
    name: maybe(chance, 0.8, () => `r${index}`),
    expression: expression,
    message: maybe(chance, 0.5, () => chance.pick(MESSAGES)),
    messageExpression: maybe(chance, 0.4, () => chance.pick(made)),
    reason: maybe(chance, 0.4, () => chance.pick(REASONS)),
    fieldPath: maybe(chance, 0.4, () => chance.pick(FIELDS)),
  });
}

function exceptionFrom(chance: Seeded, index: number, checks: readonly string[]): Exception {
  const subject = chance.pick([{ groups: ['guests'] }, { users: ['a*'] }, { namespaces: ['*'] }]);
  return given({
    ...subject,
    name: `e${index}`,
    reason: 'x',
    expiresAt: maybe(chance, 0.2, () => chance.pick(['2026-11-21T12:00:01Z', '2026-11-21T11:59:59Z'])),
    ...(chance.chance(0.2) ? { users: chance.pick([['root', ''], ['*'], ['mallory']]) } : {}),
    ...(chance.chance(0.2) ? { groups: chance.pick([['authors', 'restorers'], []]) } : {}),
    ...(chance.chance(0.2) ? { namespaces: chance.pick([['st*'], ['shop']]) } : {}),
    names: maybe(chance, 0.3, () => chance.pick([['a'], ['b', 'c*'], ['*']])),
    objectSelector: maybe(chance, 0.3, () =>
      chance.pick([
        { matchLabels: { app: 'web' } },
        { matchExpressions: [{ key: 'zone', operator: chance.pick(['Exists', 'DoesNotExist'] as const) }] },
        { matchExpressions: [{ key: 'app', operator: 'NotIn' as const, values: ['db', ''] }] },
      ]),
    ),
    checks: maybe(chance, 0.5, () => some(chance, checks, 3)),
  });
}

const VALUES: readonly JsonValue[] = ['gold', '', 3, 1.5, true, null];

function fieldSchemaFrom(chance: Seeded): JsonObject {
  const number = () => chance.below(6);
  const keywords: readonly (readonly [string, () => JsonValue])[] = [
    [
      'type',
      () =>
        chance.pick([
          'string',
          'integer',
          'number',
          'array',
          'boolean',
          ['string', 'null'],
          ['number', 'boolean'],
        ]),
    ],
    ['enum', () => [chance.pick(VALUES), 'silver', 2]],
    ['const', () => chance.pick(VALUES)],
    ['pattern', () => chance.pick(['^[a-zé😀]*$', '^.{3,4}$', 'o'])],
    ...['minLength', 'maxLength', 'minItems', 'maxItems', 'minimum', 'maximum', 'exclusiveMinimum'].map(
      (name) => [name, number] as const,
    ),
    ['not', () => ({ const: chance.pick(VALUES) })],
  ];
  return Object.fromEntries(some(chance, keywords, 3).map(([name, make]) => [name, make()]));
}

function schemaFrom(chance: Seeded): JsonObject {
  const names = ['tier', 'units', 'note', 'list', 'enabled', 'in'];
  const fields = () =>
    Object.fromEntries(some(chance, names, 4).map((name) => [name, fieldSchemaFrom(chance)]));
  const condition = { properties: { tier: { const: 'gold' } }, required: ['tier'] };
  const spec = given({
    type: maybe(chance, 0.5, () => 'object'),
    required: maybe(chance, 0.5, () => some(chance, names, 2)),
    minProperties: maybe(chance, 0.2, () => 2),
    maxProperties: maybe(chance, 0.2, () => 5),
    dependentRequired: maybe(chance, 0.2, () => ({ note: ['list'] })),
    properties: fields(),
    ...(chance.chance(0.3)
      ? {
          if: condition,
          then: { properties: fields() },
          else: { required: ['units'], properties: { note: false } },
        }
      : {}),
    allOf: maybe(chance, 0.2, () => [{ properties: fields() }]),
  }) as JsonObject;
  return { required: ['spec'], properties: { spec } };
}

function validateFrom(chance: Seeded, conditions: readonly string[], isUpdate: boolean): Validate {
  const count = chance.below(4);
  return given({
    rules: maybe(chance, 0.6, () =>
      Array.from({ length: count }, (_, index) => ruleFrom(chance, index, conditions)),
    ),
    immutable: maybe(chance, isUpdate ? 0.3 : 0, () => some(chance, PATHS.slice(0, 4), 2)),
    immutableFromCreation: maybe(chance, isUpdate ? 0.3 : 0, () => some(chance, PATHS.slice(4), 2)),
    schema: maybe(chance, 0.3, () => schemaFrom(chance)),
  });
}

const KINDS = [
  ...Array.from({ length: 4 }, () => ({
    apiGroups: [GROUP],
    resources: ['servers', 'servers/status', 'servers/scale'],
  })),
  { apiGroups: [GROUP], resources: ['datacenters', 'datacenters/status'] },
  { apiGroups: [''], resources: ['namespaces'] },
];
const OPERATIONS: readonly (readonly ('CREATE' | 'UPDATE' | 'DELETE')[])[] = [
  ...[['CREATE', 'UPDATE'] as const, ['CREATE'] as const, ['UPDATE', 'DELETE'] as const],
  ['CREATE', 'UPDATE', 'DELETE'],
];
const MATCH_CONDITIONS = [
  ...['object.spec.?units.orValue(5) > 1', 'request.userInfo.username != "root"', 'oldObject == null'],
  'object.spec.tier != "iron"',
];

export function specFrom(chance: Seeded): Spec {
  const kind = chance.pick(KINDS);
  const isNamespaced = kind.resources.includes('servers');
  const enforcement = chance.pick(['Deny', 'Deny', 'Deny', 'Warn', 'Audit'] as const);
  // Several pairs would write one annotation.
  const hasParams = enforcement !== 'Audit' && chance.chance(0.4);
  const matchConditions = some(chance, MATCH_CONDITIONS, chance.chance(0.3) ? 2 : 0);
  const operations = chance.pick(OPERATIONS);
  const all = hasParams ? [...CONDITIONS, ...OF_PARAMS, ...OF_PARAMS] : CONDITIONS;
  // A warning about an error quotes the expression. The API server drops it if it has the line break after a comment.
  const conditions = enforcement === 'Warn' ? all.filter((one) => !one.includes('//')) : all;
  const validate = validateFrom(chance, conditions, operations.includes('UPDATE'));
  const checks = [
    'rules',
    'immutable',
    'schema',
    ...(validate.rules ?? []).flatMap(({ name }) => name ?? []),
  ];
  const where = isNamespaced ? chance.pick([{ resource: 'classes' }, OTHER_NAMESPACE, CLUSTER]) : CLUSTER;
  return given({
    match: {
      ...kind,
      operations: [...operations],
      matchConditions: matchConditions.map((expression, index) => ({ name: `m${index}`, expression })),
    },
    enforcement,
    failurePolicy: matchConditions.length === 0 && chance.chance(0.2) ? ('Ignore' as const) : undefined,
    params: hasParams
      ? { apiGroup: GROUP, name: 'limits', whenMissing: 'Allow' as const, ...where }
      : undefined,
    variables: [
      { name: 'units', expression: 'object.spec.?units.orValue(1)' },
      { name: 'many', expression: 'variables.units > 3' },
      ...(hasParams ? [{ name: 'most', expression: 'params.spec.most' }] : []),
    ],
    validate,
    warnings: maybe(chance, 0.2, () => [
      { message: 'always' },
      { condition: chance.pick(CONDITIONS), message: 'sometimes' },
    ]),
    auditAnnotations: maybe(chance, 0.2, () => [
      { key: 'tier', valueExpression: 'string(object.spec.tier)' },
      { key: 'nothing', valueExpression: 'null' },
      { key: 'who', valueExpression: 'string(request.userInfo.?username.orValue(""))' },
    ]),
    exceptions: maybe(chance, 0.4, () =>
      Array.from({ length: 1 + chance.below(3) }, (_, index) => exceptionFrom(chance, index, checks)),
    ),
  });
}

const OTHER_NAMESPACE = { resource: 'classes', namespace: 'platform' };
const CLUSTER = { resource: 'datacenters' };
