/** Completion for fish. */
import { allCommands, type CommandTree, type Flag } from './command-tree.ts';

/** @see https://fishshell.com/docs/current/completions.html */
export function fishCompletion(program: CommandTree): string {
  const commands = allCommands(program);
  const { name } = program;
  const at = `__${name}_at`;
  return `${[
    `# Completion of ${name} for fish. Load it with: ${name} completion fish | source`,
    `# Whether the command that is being typed is this one.`,
    `function ${at}`,
    `  set -l at ${quote(name)}`,
    '  set -l typed (commandline -opc)',
    '  set -e typed[1]',
    '  for word in $typed',
    '    switch "$at $word"',
    `      case ${commands
      .slice(1)
      .map(({ path }) => quote(path))
      .join(' ')}`,
    '        set at "$at $word"',
    '    end',
    '  end',
    '  test "$at" = "$argv[1]"',
    'end',
    ...commands.flatMap((command) => {
      const rule = `complete -c ${name} -n ${quote(`${at} ${quote(command.path)}`)}`;
      return [
        ...command.commands.map((below) => `${rule} -f -a ${below.name} -d ${quote(below.description)}`),
        ...(command.choices.length === 0 ? [] : [`${rule} -f -a ${quote(command.choices.join(' '))}`]),
        ...command.flags.map((flag) => `${rule} ${flagRule(flag)} -d ${quote(flag.description)}`),
      ];
    }),
  ].join('\n')}\n`;
}

function flagRule({ names, takesValue, choices }: Flag): string {
  const spelled = names.map((name) =>
    name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
  );
  // -r: a value follows, which may be a file; -x: a value follows, and nothing else will do.
  const value = choices.length > 0 ? [`-x -a ${quote(choices.join(' '))}`] : takesValue ? ['-r'] : [];
  return [...spelled, ...value].join(' ');
}

const quote = (text: string): string =>
  `'${text.replaceAll('\\', String.raw`\\`).replaceAll("'", String.raw`\'`)}'`;
