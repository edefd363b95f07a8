/** Files of users: input of `gatehouse review`, kubeconfigs. */
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';

import { toJsonText } from '../../../src/json/json-text.ts';
import { isEqual, parseJson, type JsonObject, type JsonValue } from '../../../src/json/json.ts';
import { objectsOf, parseDocuments } from '../../../src/cli/review/input.ts';
import { readKubeconfig } from '../../../src/kube/rest/kubeconfig.ts';
import { parseBody } from '../../../src/sandbox/http/content-type.ts';
import { ApiFailure } from '../../../src/machinery/failure.ts';
import { yamlOf } from '../../../src/sandbox/http/respond.ts';
import { anyObject, mutatedObject, mutatedText } from '../mutated.ts';
import { SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold, isDeliberate } from '../target.ts';

const YAML = yamlOf(toJsonText(SERVER));
const nine = (text: string) => new Array<string>(9).fill(text).join();
/** A YAML bomb: each line refers to the line before it nine times. */
const BOMB = [
  `a: &a [${nine('x')}]`,
  ...Array.from('bcdefgh', (name, index) => `${name}: &${name} [${nine(`*${'abcdefg'[index]}`)}]`),
].join('\n');
const FILES = [
  YAML,
  `# a file\n---\n${YAML}---\n---\n${YAML}...\n`,
  `apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  data: {k: |\n    x\n  }\n`,
  'a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: !!binary aGk=\n  f: 0o17\n  g: 1_000\n  h: 2026-01-01\n',
  toJsonText(SERVER),
  BOMB,
];

/** The parser reads each document of a file, or reports a problem with its place. */
export const documents = fuzzTarget('YAML documents', 8, mutatedText(FILES), (text) => {
  const { found, problems } = parseDocuments(text, 'some.yaml');
  const objects = found.map(objectsOf);
  for (const problem of [...problems, ...objects.flatMap((parsed) => parsed.problems)]) {
    hold(problem.startsWith('some.yaml'), `a problem without its file: ${problem}`);
    hold(problem.length < 2_000, `a message of ${problem.length} characters`);
  }
  for (const { value } of found) {
    const written = answerOf(() => toJsonText(value), isTooLong);
    if (written !== undefined && written.length < 100_000) {
      hold(isEqual(parseJson(written), value), 'the parsed value is not JSON');
    }
  }
});

/** The length of a string is limited. No file that a user writes reaches the limit. */
const isTooLong = (error: unknown) =>
  error instanceof RangeError && error.message === 'Invalid string length';

const yamlObjects = fc.oneof(mutatedObject([SERVER]), anyObject);

/** The sandbox and `gatehouse review` parse an object written as YAML to the same object. */
export const yamlText = fuzzTarget('YAML there and back', 8, yamlObjects, (input) => {
  const object = { object: input }; // not at the start of the text, where a byte order mark is dropped
  const yaml = yamlOf(toJsonText(object));
  if (!yaml.isWellFormed()) return; // UTF-8 cannot encode half of a surrogate pair
  const isRefusal = (error: unknown) => error instanceof ApiFailure;
  const body = answerOf(() => parseBody(Buffer.from(yaml), 'application/yaml'), isRefusal);
  hold(body !== undefined, `it was refused: ${yaml}`);
  hold(isEqual(body, object), () => `the body is read as ${toJsonText(body ?? null)}:\n${yaml}`);
  const { found, problems } = parseDocuments(yaml, '-');
  const [first]: readonly { readonly value: JsonValue }[] = found;
  hold(
    isEqual(first?.value, object),
    () => `the file is read as ${toJsonText(first?.value ?? problems.join())}:\n${yaml}`,
  );
});

const TOKEN = 'c2VjcmV0LXRva2VuLW9mLWFsaWNl';
const KUBECONFIG: JsonObject = {
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'here',
  clusters: [
    {
      name: 'one',
      cluster: {
        server: 'https://127.0.0.1:6443',
        'certificate-authority-data': 'Zm9v',
        'proxy-url': 'http://p:1',
      },
    },
    { name: 'two', cluster: { server: 'http://127.0.0.1:8080', 'tls-server-name': 'x' } },
  ],
  users: [
    { name: 'alice', user: { token: TOKEN, as: 'bob', 'as-groups': ['g'], 'as-user-extra': { k: ['v'] } } },
    { name: 'nobody', user: {} },
  ],
  contexts: [
    { name: 'here', context: { cluster: 'one', user: 'alice', namespace: 'store' } },
    { name: 'there', context: { cluster: 'two', user: 'nobody' } },
  ],
};

const configs = fc.tuple(
  fc.oneof(
    mutatedObject([KUBECONFIG]).map((config) => yamlOf(toJsonText(config))),
    mutatedText([yamlOf(toJsonText(KUBECONFIG))]),
  ),
  fc.constantFrom('', 'here', 'there'),
);

/** A kubeconfig is read, or rejected with a message that names the file and reveals no token. */
export const kubeconfigs = fuzzTarget('kubeconfig', 4, configs, ([text, context]) => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-fuzz-'));
  const file = join(folder.path, 'config');
  writeFileSync(file, text);
  readAs(file, context === '' ? undefined : context);
});

function readAs(file: string, context: string | undefined): void {
  const isAnswer = (error: unknown) =>
    isDeliberate(error) &&
    error instanceof Error &&
    error.message.includes(file) &&
    !error.message.includes(TOKEN);
  const access = answerOf(() => readKubeconfig([file], context), isAnswer);
  if (access === undefined) return;
  hold(typeof access.server === 'string', 'the server is not a string');
  const { groups = [], extra = {} } = access.impersonation ?? {};
  const values = [access.impersonation?.user ?? '', ...groups, ...Object.values(extra).flat()];
  hold(
    values.every((value) => typeof value === 'string'),
    'the impersonated user is not a string',
  );
}
