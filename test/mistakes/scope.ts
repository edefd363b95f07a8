/** Policies with a wrong scope or without an effect. */
import { immutable, wrong, type Mistake } from './mistake.ts';

const CHECK = 'validate:\n  immutable: [spec.tenant]';
const SERVERS = 'apiGroups: [infra.example.com], resources: [servers]';

const scope = (mistake: string, line: string, ...says: readonly string[]): Mistake => ({
  mistake,
  line,
  spec: `${line}\n${CHECK}`,
  says,
});

/** The API server validates the policy by its own schema. */
const apiServer = (mistake: Mistake): Mistake => ({ ...mistake, isSeenByApiServer: true });

export const SCOPE: readonly Mistake[] = [
  scope(
    'a kind in the singular',
    'match: { apiGroups: [infra.example.com], resources: [server] }',
    'spec.match: the API server serves no server.infra.example.com: did you mean servers.infra.example.com?',
  ),
  scope(
    'a kind instead of a resource',
    'match: { apiGroups: [infra.example.com], resources: [Server] }',
    'spec.match.resources: "Server" is not a plural such as servers',
  ),
  scope(
    'a misspelt group',
    'match: { apiGroups: [infra.exmaple.com], resources: [servers] }',
    'spec.match: the API server serves no servers.infra.exmaple.com: did you mean servers.infra.example.com?',
  ),
  scope(
    'the core group for a kind of another group',
    'match: { apiGroups: [""], resources: [deployments] }',
    'spec.match: the API server serves no deployments: did you mean deployments.apps?',
  ),
  scope(
    'a misspelt subresource',
    'match: { apiGroups: [infra.example.com], resources: [servers, servers/sttus] }',
    'spec.match: the API server serves no servers/sttus. Subresources of servers: name one of status',
  ),
  scope(
    'a subresource that a built-in kind does not have',
    'match: { apiGroups: [""], resources: [pods/evict] }',
    'spec.match: the API server serves no pods/evict. Subresources of pods: name one of attach, binding, ephemeralcontainers, eviction, exec, log, portforward, proxy, resize, status',
  ),
  scope(
    'a version that is not served',
    `match: { ${SERVERS}, apiVersions: [v2] }`,
    'spec.match: the API server serves servers.infra.example.com in v1, and not in v2: correct spec.match.apiVersions',
  ),
  scope(
    'all groups',
    'match: { apiGroups: ["*"], resources: ["*"] }',
    'spec.match.apiGroups: "*" also covers what the cluster needs to heal itself, such as leases and nodes: list the groups that the policy is about',
  ),
  scope(
    'the kinds of Gatehouse',
    'match: { apiGroups: [gatehouse.dev], resources: ["*"] }',
    'spec.match.resources: "*" in the API group "gatehouse.dev" covers its resources: a policy over the policies themselves could not be corrected any more; name other resources',
  ),
  scope(
    'immutable fields without UPDATE',
    `match: { ${SERVERS}, operations: [CREATE] }`,
    'spec.match.operations: lacks UPDATE, so immutable fields would never be checked: add it',
  ),
  wrong(
    'a target that is not served',
    'target: { apiGroup: infra.example.com, resource: datacenter }',
    'validate:\n  references:\n    - name: datacenter\n      path: spec.datacenter\n      LINE',
    'spec.validate.references[0].target: the API server serves no datacenter.infra.example.com: install its CustomResourceDefinition, or correct the name (its CustomResourceDefinition is missing: add it to the crds)',
  ),
  wrong(
    'a namespace for a target without one',
    'namespacePath: spec.tenant',
    'validate:\n  references:\n    - name: datacenter\n      path: spec.datacenter\n      LINE\n      target: { apiGroup: infra.example.com, resource: datacenters }',
    'spec.validate.references[0].namespacePath: the target is cluster-scoped: remove it',
  ),
  apiServer(
    wrong(
      'a misspelt field of the policy',
      'rulez: []',
      'validate:\n  LINE',
      'spec.validate.rulez: field rulez not found in spec.validate: did you mean rules?',
    ),
  ),
  apiServer(
    wrong(
      '`matchConditions` where a ValidatingAdmissionPolicy has them',
      'matchConditions: []',
      'LINE',
      'spec.matchConditions: field matchConditions not found in spec: did you mean spec.match.matchConditions?',
    ),
  ),
  apiServer(
    wrong(
      'a word in another case',
      'enforcement: deny',
      'LINE\n' + CHECK,
      'spec.enforcement: Unsupported value: "deny": supported values: "Deny", "Warn", "Audit"',
    ),
  ),
  wrong(
    'both a value and an expression',
    '- path: spec.tenant',
    'defaults:\n  LINE\n    value: a\n    expression: "\'a\'"',
    'spec.defaults[0]: write either value or expression',
  ),
  wrong(
    'a default for an element of a list',
    '- path: spec.tags[0]',
    'defaults:\n  LINE\n    value: a',
    'spec.defaults[0].path: ends in an element of a list, and defaults never add elements: end it in a field',
  ),
  wrong(
    'a default for the status',
    '- path: status.phase',
    'defaults:\n  LINE\n    value: New',
    'spec.defaults[0].path: the API server takes a status only through the status subresource: match that alone, e.g. servers/status',
  ),
  immutable(
    'an immutable element of a list',
    'spec.ports[*].number',
    'list elements lack an identity, so [*] cannot be immutable: write the path of the whole list',
  ),
  immutable(
    'an immutable field of metadata',
    'metadata.generation',
    'the API server changes metadata itself with every write: only labels and annotations can be immutable',
  ),
  wrong(
    'a schema with an unknown type',
    'schema: { properties: { spec: { type: map } } }',
    'validate:\n  LINE',
    'spec.validate.schema: schema is invalid: data/properties/spec/type must be equal to one of the allowed values, data/properties/spec/type must be array, data/properties/spec/type must match a schema in anyOf',
  ),
  wrong(
    'a warning without a text',
    '- condition: object.spec.replicas > 3',
    'warnings:\n  LINE',
    'spec.warnings[0]: write either message or messageExpression',
  ),
  wrong(
    'a match condition on a variable',
    '- { name: small, expression: variables.limit > 3 }',
    `match:\n  ${SERVERS.replace(', ', '\n  ')}\n  matchConditions:\n    LINE\n${CHECK}`,
    'spec.match.matchConditions[0].expression: variable variables is not available here: match conditions cannot use them',
  ),
  wrong(
    'a default that the API server refuses on UPDATE',
    '- { path: spec.hostname, value: a }',
    'match:\n  apiGroups: [""]\n  resources: [pods]\n  operations: [UPDATE]\ndefaults:\n  LINE',
    'spec.defaults[0]: never applies to pods, because the API server refuses to change this part of existing objects: add CREATE to spec.match.operations',
  ),
];
