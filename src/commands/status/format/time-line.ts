/** Lives beside each other, as bars of ASCII over one stretch of time. */
export interface Life {
  readonly from: Date;
  readonly to: Date;
  /** One character; the bar is made of it. */
  readonly stroke: string;
}

export interface TimeLine {
  /** One a life: `.` outside of it, `|` at the moment that is now. All of one length. */
  readonly bars: readonly string[];
  readonly from: Date;
  readonly to: Date;
}

/** Over all lives and `now`. @param width in characters, 2 and more */
export function timeLine(lives: readonly Life[], now: Date, width: number): TimeLine {
  const instants = [now, ...lives.flatMap(({ from, to }) => [from, to])].map(Number);
  const [begin, end] = [Math.min(...instants), Math.max(...instants)];
  const columnOf = (instant: Date): number =>
    end === begin ? 0 : Math.min(width - 1, Math.floor(((Number(instant) - begin) / (end - begin)) * width));
  const at = columnOf(now);
  const bars = lives.map(({ from, to, stroke }) => {
    const [first, last] = [columnOf(from), columnOf(to)];
    return Array.from({ length: width }, (_none, column) => {
      if (column === at) return '|';
      return column >= first && column <= last ? stroke : '.';
    }).join('');
  });
  return { bars, from: new Date(begin), to: new Date(end) };
}
