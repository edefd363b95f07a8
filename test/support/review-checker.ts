/** Validates responses by the API server's rules: its documentation, and VerifyAdmissionResponse in k8s.io/apiserver. */
type Fields = Record<string, unknown>;

interface PatchStep {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

type Webhook = 'mutate' | 'validate';

/** The verdict of an AdmissionReview response. @throws Error that names the violated rule */
export function judgeAdmission(webhook: Webhook, questionText: string, answerText: string) {
  const { request, response } = exchanged('AdmissionReview', questionText, answerText);
  onlyKeys(response, ['uid', 'allowed', 'status', 'patch', 'patchType', 'warnings', 'auditAnnotations']);
  rule('allowed is a boolean', typeof response.allowed === 'boolean');
  const allowed = response.allowed === true;
  if (!allowed) judgeStatus(fieldsOf(response.status, 'status of a denial'));
  judgeWarnings(response.warnings);
  judgeAuditAnnotations(response.auditAnnotations);
  return {
    allowed,
    message: allowed ? undefined : String(fieldsOf(response.status, 'status').message),
    patch: patchOf(webhook, request, response),
  };
}

function exchanged(kind: string, questionText: string, answerText: string) {
  const question = fieldsOf(JSON.parse(questionText), 'question');
  const request = fieldsOf(question.request, 'request');
  const answer = fieldsOf(JSON.parse(answerText), 'answer');
  onlyKeys(answer, ['apiVersion', 'kind', 'response']);
  rule('apiVersion equals the question', answer.apiVersion === question.apiVersion);
  rule(`kind is ${kind}`, answer.kind === kind);
  const response = fieldsOf(answer.response, 'response');
  rule('uid equals the request', response.uid === request.uid);
  return { request, response };
}

function patchOf(webhook: Webhook, request: Fields, response: Fields): readonly PatchStep[] {
  rule('patch and patchType: both or neither', 'patch' in response === 'patchType' in response);
  if (!('patch' in response)) return [];
  rule('a validating webhook sends no patch', webhook === 'mutate');
  rule('a denial sends no patch', response.allowed === true);
  rule('no patch where there is no object', request.object !== null && request.operation !== 'DELETE');
  rule('patchType is JSONPatch', response.patchType === 'JSONPatch');
  const { patch } = response;
  rule('patch is base64', typeof patch === 'string' && /^[A-Za-z0-9+/]+={0,2}$/.test(patch));
  const steps: unknown = JSON.parse(Buffer.from(String(patch), 'base64').toString('utf8'));
  rule('patch is a list', Array.isArray(steps));
  return (steps as readonly unknown[]).map((step): PatchStep => {
    const { op, path, ...rest } = fieldsOf(step, 'patch operation');
    rule('op and path are strings', typeof op === 'string' && typeof path === 'string');
    rule('add and replace carry a value', op === 'remove' || 'value' in rest);
    return { op: String(op), path: String(path), ...rest };
  });
}

function judgeStatus({ status, code, message, reason, details }: Fields): void {
  rule('status is Failure', status === 'Failure');
  rule('code is an HTTP error', Number.isInteger(code) && Number(code) >= 400 && Number(code) < 600);
  rule('message is there', typeof message === 'string' && message.length > 0);
  rule('reason is one CamelCase word', typeof reason === 'string' && /^[A-Z][A-Za-z]+$/.test(reason));
  if (details === undefined) return;
  const { causes = [] } = fieldsOf(details, 'details');
  rule('causes is a list', Array.isArray(causes));
  for (const cause of causes as readonly unknown[]) {
    const fields = fieldsOf(cause, 'cause');
    onlyKeys(fields, ['field', 'reason', 'message']);
    rule('causes are texts', areTexts(fields));
  }
}

function judgeWarnings(warnings: unknown = []): void {
  rule('warnings is a list', Array.isArray(warnings));
  for (const warning of warnings as readonly unknown[]) {
    rule('a warning is a text', typeof warning === 'string');
    rule('a warning is free of control characters', !/\p{Cc}/u.test(String(warning)));
    rule('a warning has at most 256 characters', Array.from(String(warning)).length <= 256);
  }
}

function judgeAuditAnnotations(annotations: unknown = {}): void {
  for (const [key, value] of Object.entries(fieldsOf(annotations, 'auditAnnotations'))) {
    rule(
      'an audit key is a name without a slash',
      /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(key),
    );
    rule('an audit annotation is a text', typeof value === 'string');
  }
}

const areTexts = (fields: Fields) => Object.values(fields).every((value) => typeof value === 'string');

/** RFC 6902, as strict as the API server's library: missing parents and indices beyond the end are errors. */
export function patched(document: unknown, steps: readonly PatchStep[]): unknown {
  const root = { document: structuredClone(document) };
  for (const { op, path, value } of steps) {
    const keys = ['document', ...path.split('/').slice(1)].map((key) =>
      key.replaceAll('~1', '/').replaceAll('~0', '~'),
    );
    const last = keys.pop() ?? '';
    let parent: unknown = root;
    for (const key of keys) parent = member(parent, key);
    if (Array.isArray(parent)) {
      const index = last === '-' && op === 'add' ? parent.length : Number(last);
      rule(`${path} is an index`, Number.isInteger(index) && index >= 0);
      rule(`${path} is in the list`, index < parent.length + (op === 'add' ? 1 : 0));
      parent.splice(index, op === 'add' ? 0 : 1, ...(op === 'remove' ? [] : [value]));
      continue;
    }
    const fields = fieldsOf(parent, `parent of ${path}`);
    rule(`${path} is there`, op === 'add' || Object.hasOwn(fields, last));
    if (op === 'remove') Reflect.deleteProperty(fields, last);
    else Object.defineProperty(fields, last, { value, enumerable: true, configurable: true, writable: true });
  }
  return root.document;
}

function member(parent: unknown, key: string): unknown {
  if (Array.isArray(parent)) return parent[Number(key)] as unknown;
  const fields = fieldsOf(parent, `parent of ${key}`);
  rule(`${key} is there`, Object.hasOwn(fields, key));
  return fields[key];
}

function fieldsOf(value: unknown, what: string): Fields {
  rule(`${what} is an object`, typeof value === 'object' && value !== null && !Array.isArray(value));
  return value as Fields; // an object, by the previous rule
}

function onlyKeys(fields: Fields, known: readonly string[]): void {
  for (const key of Object.keys(fields)) rule(`${key} is a field of the API`, known.includes(key));
}

function rule(name: string, holds: boolean): void {
  if (!holds) throw new Error(`broken rule: ${name}`);
}
