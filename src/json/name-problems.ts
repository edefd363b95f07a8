/** Checks of names and labels with the patterns and messages of k8s.io/apimachinery/pkg/util/validation. */

type Check = (text: string) => readonly string[];

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const LABEL_1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';
const NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';

/** No nested repetition of the same characters, so JavaScript's own engine is linear. */
const whole = (pattern: string) => new RegExp(`^(?:${pattern})$`);
const isSubdomain = whole(SUBDOMAIN);
const isName = whole(NAME);

const because = (rule: string, pattern: string, ...examples: readonly string[]) =>
  `${rule} (e.g. ${examples.map((example) => `'${example}', `).join(' or ')}regex used for validation is '${pattern}')`;

const SUBDOMAIN_PROBLEM = because(
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
  SUBDOMAIN,
  'example.com',
);
const LABEL_1035_PROBLEM = because(
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
  LABEL_1035,
  'my-name',
  'abc-123',
);
const LABEL_PROBLEM = because(
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
  LABEL,
  'my-name',
  '123-abc',
);
const NAME_PROBLEM = because(
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  NAME,
  'MyName',
  'my.name',
  '123-abc',
);
const VALUE_PROBLEM = because(
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  `(${NAME})?`,
  'MyValue',
  'my_value',
  '12345',
);

const tooLong = (text: string, most: number, unit: 'bytes' | 'characters' = 'bytes') =>
  Buffer.byteLength(text) > most ? [`must be no more than ${most} ${unit}`] : [];

const checked =
  (most: number, pattern: RegExp, problem: string): Check =>
  (text) => [...tooLong(text, most, 'characters'), ...(pattern.test(text) ? [] : [problem])];

export const dnsSubdomainProblems = checked(253, isSubdomain, SUBDOMAIN_PROBLEM);
export const dns1035LabelProblems = checked(63, whole(LABEL_1035), LABEL_1035_PROBLEM);
const plainLabelProblems = checked(63, whole(LABEL), LABEL_PROBLEM);

/** Of an RFC 1123 label: the name of a Namespace or a container. */
export const dnsLabelProblems: Check = (text) =>
  plainLabelProblems(text).map((problem) =>
    problem === LABEL_PROBLEM && isSubdomain.test(text) ? 'must not contain dots' : problem,
  );

/** Of the key of a label or an annotation: an optional DNS prefix with a slash, and a name. */
export const labelKeyProblems: Check = (key) => {
  const parts = key.split('/');
  if (parts.length > 2) {
    return [
      `a valid label key ${NAME_PROBLEM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const [name = '', prefix] = parts.toReversed();
  const ofPrefix = prefix === undefined || isSubdomain.test(prefix) ? [] : [SUBDOMAIN_PROBLEM];
  return [
    ...(prefix === '' ? ['must be non-empty'] : [...tooLong(prefix ?? '', 253), ...ofPrefix]).map(
      (problem) => `prefix part ${problem}`,
    ),
    ...[
      ...(name === '' ? ['must be non-empty'] : tooLong(name, 63)),
      ...(isName.test(name) ? [] : [NAME_PROBLEM]),
    ].map((problem) => `name part ${problem}`),
  ];
};

export const labelValueProblems: Check = (text) => [
  ...tooLong(text, 63),
  ...(text === '' || isName.test(text) ? [] : [VALUE_PROBLEM]),
];
