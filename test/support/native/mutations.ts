/** Policies with mutations, for the comparison of the webhook and the API server. */
import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import { pointerPart } from '../../../src/json/json-patch.ts';
import type { Seeded } from '../seeded.ts';

type Mutation = NonNullable<AdmissionPolicySpec['mutations']>[number];

const TEXTS = [
  '"gold"',
  '"a\\n\\"b\\" é😀"',
  "r'a\\\\b'",
  'string(object.metadata.name) + "-x"',
  'string(object.?spec.?tier.orValue("none"))',
  'request.userInfo.username',
  'string(variables.rack)',
  'variables.who == "ada" ? variables.who : "other" // a comment\n',
  'string(oldObject.spec.units)',
  'namespaceObject.metadata.labels.env',
  'string(object.spec.nothing)',
];
const OTHERS = [
  ...['0', '-3', '1.5', '9007199254740991', '2.0', 'true', '[]', '{}', '[1, "a", {"b": [true, {}]}]'],
  ...['has(object.spec.tier)', 'request.dryRun', '["a", string(object.metadata.name)]', '{"a": {"b": 1}}'],
];

const CONDITIONS = [
  ...['has(object.spec)', '!has(object.spec)', 'has(object.spec.units)', '!has(object.spec.note)'],
  ...['object.spec.tier == "gold"', 'object.spec.enabled', 'request.operation == "CREATE"'],
  ...['object.?spec.?units.hasValue()', 'oldObject == null || oldObject.spec.tier != "iron"'],
  ...['request.userInfo.username == "ada"', '!("app" in object.?metadata.?labels.orValue({}))'],
  ...['variables.rack == "?"', 'has(object.metadata.labels)'],
];

const PLACES = [
  ...['spec tier', 'spec units', 'spec note', 'spec limits cpu', 'spec limits memory', 'spec list'],
  ...[
    'spec a~/b',
    'spec a~/b c/d',
    'spec in side out',
    'spec',
    'extra',
    'extra 5',
    'metadata labels example.com/rack',
  ],
  ...['metadata annotations a~b', 'metadata annotations'],
].map((place) => place.split(' '));
const ITEMS = ['spec list 0', 'spec list 1 name', 'spec list 0 deep'].map((place) => place.split(' '));

const valueFrom = (chance: Seeded, place: readonly string[]): string => {
  if (place[0] === 'metadata') return place.length > 2 ? chance.pick(TEXTS) : '{"a": "b"}';
  return chance.chance(0.5) ? chance.pick(TEXTS) : chance.pick(OTHERS);
};

type Tree = Map<string, Tree | string>;

const treeText = (tree: Tree | string): string =>
  typeof tree === 'string'
    ? tree
    : `{${[...tree].map(([key, value]) => `${JSON.stringify(key)}: ${treeText(value)}`).join(', ')}}`;

function mergeFrom(chance: Seeded): string {
  const root: Tree = new Map();
  for (let count = 1 + chance.below(3); count > 0; count -= 1) {
    const place = chance.pick(PLACES);
    let tree = root;
    for (const key of place.slice(0, -1)) {
      const known = tree.get(key);
      const next: Tree = typeof known === 'object' ? known : new Map<string, Tree | string>();
      tree.set(key, next);
      tree = next;
    }
    tree.set(place.at(-1) ?? '', chance.chance(0.2) ? 'null' : valueFrom(chance, place));
  }
  return treeText(root);
}

function operationsFrom(chance: Seeded): string {
  const operations = Array.from({ length: 1 + chance.below(2) }, () => {
    const place = chance.pick(chance.chance(0.2) ? ITEMS : PLACES);
    const path = JSON.stringify(place.map(pointerPart).join(''));
    const op = chance.pick(['add', 'add', 'replace', 'replace', 'remove']);
    const value = op === 'remove' ? '' : `, "value": ${valueFrom(chance, place)}`;
    return `{"op": "${op}", "path": ${path}${value}}`;
  });
  return `[${operations.join(', ')}]`;
}

const OF_PARAMS = [
  ...['params.spec.most == 3', 'has(params.spec.tiers)', '"gold" in params.spec.tiers'],
  'string(params.spec.most) == "3"',
];

/** Patches that would not be repeatable without their conditions. */
const GUARDED = [
  { condition: 'has(object.spec.note)', expression: '[{"op": "remove", "path": "/spec/note"}]' },
  {
    condition: '"units" in object.spec && object.spec.units > 2',
    expression:
      '[{"op": "remove", "path": "/spec/units"}, {"op": "add", "path": "/spec/tier", "value": string(object.spec.units)}]',
  },
  {
    condition: '!has(object.metadata.labels)',
    expression: '[{"op": "add", "path": "/metadata/labels", "value": {}}]',
  },
  {
    condition: '!object.spec.list.exists(item, item.name == "side")',
    expression:
      '[{"op": "add", "path": "/spec/list/-", "value": {"image": string(object.metadata.name), "name": "side"}}]',
  },
  {
    condition: '!("z" in object.spec.list)',
    expression: '[{"op": "add", "path": "/spec/list/-", "value": "z"}]',
  },
];

function mutationFrom(chance: Seeded, index: number, ofParams: boolean): Mutation {
  const name = `m${index}`;
  if (!ofParams && chance.chance(0.15)) return { name, type: 'JSONPatch', ...chance.pick(GUARDED) };
  const type = chance.chance(0.5) ? 'Merge' : 'JSONPatch';
  const [literal, none] = type === 'Merge' ? [mergeFrom, 'dyn({})'] : [operationsFrom, 'dyn([])'];
  const one = () => (chance.chance(0.2) ? `dyn(${literal(chance)})` : literal(chance));
  const whole = (): string => {
    if (chance.chance(0.15))
      return `${chance.pick(CONDITIONS)} ? dyn(${one()}) : (${chance.chance(0.5) ? none : `dyn(${one()})`})`;
    return type === 'JSONPatch' && chance.chance(0.3) ? `${one()} + ${one()}` : one();
  };
  const conditions = [
    ...Array.from({ length: chance.below(3) }, () => chance.pick(CONDITIONS)),
    ...(ofParams ? [chance.pick(OF_PARAMS)] : []),
  ];
  return {
    name,
    type,
    expression: whole(),
    ...(conditions.length === 0 ? {} : { condition: conditions.join(' && ') }),
  };
}

const PARAMS = {
  apiGroup: 'infra.example.com',
  resource: 'classes',
  name: 'limits',
  namespace: 'store',
  whenMissing: 'Allow' as const,
};

export function matchedBy(chance: Seeded) {
  const expression = chance.pick([
    'request.userInfo.username != "root"',
    'has(request.name) && request.name == "a"',
  ]);
  return { matchConditions: [{ name: 'who', expression }] };
}

/** A policy with mutations, and sometimes with a default. Not each can be compiled. */
export function mutatingSpecFrom(chance: Seeded): Partial<AdmissionPolicySpec> {
  const matched = matchedBy(chance);
  const hasParams = chance.chance(0.25);
  const resources = chance.pick([['servers'], ['servers', 'servers/status']]);
  return {
    match: {
      apiGroups: ['infra.example.com'],
      resources,
      ...(!hasParams && chance.chance(0.2) ? matched : {}),
    },
    variables: [
      { name: 'rack', expression: 'object.?metadata.?labels["example.com/rack"].orValue("?")' },
      { name: 'who', expression: 'string(request.userInfo.username)' },
    ],
    ...(chance.chance(0.3)
      ? { exceptions: [{ name: 'root', reason: 'x', users: ['root'], expiresAt: '2099-01-01T00:00:00Z' }] }
      : {}),
    ...(!hasParams && chance.chance(0.2) ? { defaults: [{ path: 'spec.limits.disk', value: 'small' }] } : {}),
    mutations: Array.from({ length: 1 + chance.below(3) }, (_, index) =>
      mutationFrom(chance, index, hasParams),
    ),
    ...(hasParams ? { params: PARAMS } : {}),
    restore: { mutations: 'Apply' },
  };
}
