/** Renders the reference page of the command line from the commands of the program. */
import { isDeepStrictEqual } from 'node:util';
import type { Command, Option } from 'commander';

import { cell, code, table, type File } from './page.ts';

export function cliPage(program: Command): File {
  const written: Table[] = [];
  return {
    file: 'cli.md',
    title: 'Command line',
    text: [
      `${sentence(program.description())} Every command has \`--help\`.`,
      'Set an option of `gatehouse webhook`, `controllers` and `serve` with a flag, an environment variable or a key in the file given with `--config`, in ' +
        'this order of precedence. Processes can share a file and an environment: each ignores the settings that only another one uses. A flag that a process ' +
        'does not use is an error. Kubernetes also sets variables: see [operating](../operating.md#variables-of-services).',
      '[status](../status.md), [doctor](../status.md#gatehouse-doctor), [review](../review.md), ' +
        '[sandbox](../sandbox.md) and [restore](../restore.md) have their own pages.',
      ...documented(program).flatMap((command) => section(command, [program.name()], written)),
    ].join('\n\n'),
  };
}

/** `help` prints what the other sections contain. */
const documented = ({ commands }: Command): readonly Command[] =>
  commands.filter((command) => command.name() !== 'help');

interface Table {
  readonly path: string;
  readonly options: readonly Described[];
}

/** @param written the tables so far, because the processes share most settings */
function section(command: Command, above: readonly string[], written: Table[]): readonly string[] {
  const path = [...above, command.name()];
  const usage = [...path, command.usage()].join(' ');
  const options = command.options.filter(({ hidden }) => !hidden);
  return [
    `${'#'.repeat(above.length + 1)} ${path.join(' ')}`,
    sentence(command.description()),
    fenced(usage),
    ...command.registeredArguments
      .filter(({ argChoices }) => argChoices !== undefined)
      .map((argument) => `\`${argument.name()}\` is ${choicesOf(argument.argChoices)}.`),
    ...(options.length === 0 ? [] : [optionsOnce(options, path.join(' '), written)]),
    ...helpAfter(command),
    ...documented(command).flatMap((below) => section(below, path, written)),
  ];
}

/** Refers to an earlier table that contains all options, and not many more. */
function optionsOnce(given: readonly Option[], path: string, written: Table[]): string {
  const options = given.map(describe).toSorted((a, b) => (a.flags < b.flags ? -1 : 1));
  const extraIn = (table: Table) =>
    table.options.filter((one) => !options.some((own) => isDeepStrictEqual(own, one)));
  const wider = written.find(
    (table) =>
      extraIn(table).length === table.options.length - options.length &&
      extraIn(table).length < options.length,
  );
  if (wider === undefined) {
    written.push({ path, options });
    return optionTable(options);
  }
  const except = extraIn(wider).map(({ flags }) => code(flags.replace(/ .*/, '')));
  return `The options are those of \`${wider.path}\`${except.length === 0 ? '' : `, except ${except.join(', ')}`}.`;
}

function optionTable(rows: readonly Described[]): string {
  const fromEnvironment = rows.some(({ variable }) => variable !== '');
  return table(
    ['option', 'default', ...(fromEnvironment ? ['environment'] : []), 'description'],
    rows.map(({ flags, fallback, variable, what }) => [
      code(flags),
      fallback,
      ...(fromEnvironment ? [variable] : []),
      what,
    ]),
  );
}

/** Commander does not know some defaults and environment variables: the description ends with them. */
type Described = ReturnType<typeof describe>;

function describe({ flags, description, defaultValue, defaultValueDescription, argChoices, negate }: Option) {
  const [, said = '', written, variable = ''] =
    /^(.*?)(?: \(default: (.*?)\))?(?: \[(GATEHOUSE_\w+)\])?$/s.exec(description) ?? [];
  const known =
    defaultValueDescription ?? (negate || defaultValue === undefined ? written : String(defaultValue));
  return {
    flags,
    fallback: known === undefined || known === '' ? '' : code(known),
    variable: variable === '' ? '' : code(variable),
    what: cell(said) + (argChoices === undefined ? '' : `: ${choicesOf(argChoices)}`),
  };
}

const choicesOf = (choices: readonly string[] = []): string => choices.map(code).join(', ');

/** The examples and exit codes that `--help` prints after the options. */
function helpAfter(command: Command): readonly string[] {
  let printed = '';
  command.configureOutput({
    writeOut: (text) => {
      printed += text;
    },
    getOutHelpWidth: () => 120,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  const after = printed.slice(command.helpInformation().length).trim();
  return after === '' ? [] : [fenced(after)];
}

const fenced = (text: string): string => `\`\`\`text\n${text}\n\`\`\``;

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
