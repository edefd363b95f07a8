/** JUnit XML for CI systems. */

export interface JunitCase {
  readonly name: string;
  /** The file or policy of the case. */
  readonly className: string;
  readonly file?: string;
  readonly result:
    | { readonly kind: 'passed' }
    | { readonly kind: 'skipped'; readonly message: string }
    /** The check found a problem. */
    | { readonly kind: 'failed'; readonly message: string; readonly details: string }
    /** The check could not run. */
    | { readonly kind: 'error'; readonly message: string };
  /** Further output, such as warnings. */
  readonly output: readonly string[];
}

export interface JunitSuite {
  readonly name: string;
  readonly cases: readonly JunitCase[];
}

export function formatJunit(suites: readonly JunitSuite[]): string {
  const all = suites.flatMap(({ cases }) => cases);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="gatehouse review" ${counts(all)}>`,
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
  const count = (kind: JunitCase['result']['kind']) =>
    cases.filter(({ result }) => result.kind === kind).length;
  return `tests="${cases.length}" failures="${count('failed')}" errors="${count('error')}" skipped="${count('skipped')}"`;
}

function caseLines({ name, className, file, result, output }: JunitCase): readonly string[] {
  const content = [
    ...resultLines(result),
    ...(output.length === 0 ? [] : [`      <system-out>${escapeXml(output.join('\n'))}</system-out>`]),
  ];
  const start = `    <testcase${attributes({ name, classname: className, file })}`;
  return content.length === 0 ? [`${start}/>`] : [`${start}>`, ...content, '    </testcase>'];
}

function resultLines(result: JunitCase['result']): readonly string[] {
  switch (result.kind) {
    case 'passed':
      return [];
    case 'skipped':
      return [`      <skipped${attributes({ message: result.message })}/>`];
    case 'failed':
      return [
        `      <failure${attributes({ message: result.message })}>${escapeXml(result.details)}</failure>`,
      ];
    case 'error':
      return [`      <error${attributes({ message: result.message })}/>`];
  }
}

function attributes(values: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(values)
    .map(([name, value]) =>
      value === undefined ? '' : ` ${name}="${escapeXml(value).replaceAll('\n', '&#10;')}"`,
    )
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
