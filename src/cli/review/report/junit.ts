export interface JunitCase {
  readonly name: string;
  readonly className: string;
  readonly file?: string;
  readonly failure?: { readonly message: string; readonly details: string };
  readonly error?: string;
  readonly skipped?: string;
  readonly output: readonly string[];
}

export interface JunitSuite {
  readonly name: string;
  readonly cases: readonly JunitCase[];
}

export function formatJunit(command: 'review' | 'restore rehearse', suites: readonly JunitSuite[]): string {
  const all = suites.flatMap(({ cases }) => cases);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="gatehouse ${command}" ${counts(all)}>`,
    ...suites.flatMap(({ name, cases }) => [
      `  <testsuite${attributes({ name })} ${counts(cases)}>`,
      ...cases.flatMap(caseLines),
      '  </testsuite>',
    ]),
    '</testsuites>',
    '',
  ].join('\n');
}

function counts(cases: readonly JunitCase[]): string {
  const count = (key: 'failure' | 'error' | 'skipped') =>
    cases.filter((one) => one[key] !== undefined).length;
  return `tests="${cases.length}" failures="${count('failure')}" errors="${count('error')}" skipped="${count('skipped')}"`;
}

function caseLines({ name, className, file, failure, error, skipped, output }: JunitCase): readonly string[] {
  const content = [
    ...(skipped === undefined ? [] : [`<skipped${attributes({ message: skipped })}/>`]),
    ...(failure === undefined
      ? []
      : [`<failure${attributes({ message: failure.message })}>${escapeXml(failure.details)}</failure>`]),
    ...(error === undefined ? [] : [`<error${attributes({ message: error })}/>`]),
    ...(output.length === 0 ? [] : [`<system-out>${escapeXml(output.join('\n'))}</system-out>`]),
  ];
  const start = `    <testcase${attributes({ name, classname: className, file })}`;
  if (content.length === 0) return [`${start}/>`];
  return [`${start}>`, ...content.map((line) => `      ${line}`), '    </testcase>'];
}

function attributes(values: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value = '']) => ` ${name}="${escapeXml(value).replaceAll('\n', '&#10;')}"`)
    .join('');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** XML 1.0 cannot represent some characters, not even escaped. */
function escapeXml(text: string): string {
  return (
    text
      .toWellFormed()
      .replaceAll('\r', '\n')
      // eslint-disable-next-line no-control-regex -- matches these characters
      .replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
      .replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character)
  );
}
