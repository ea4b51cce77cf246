/** Tasks: the board that agents and people share. */
import { api, at, here } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Dialog, Empty, ErrorBox, Field, Loading, Page, Time, useAction, useList } from "../parts/index.js";
import { count, oneLine } from "../text.js";

const COLUMNS = [
  ["pending", "Pending"],
  ["in_progress", "In progress"],
  ["completed", "Completed"],
];
const SHOWN = 50; // tasks of a column, at first

export default function Tasks() {
  const { rows, error, isLoading, reload } = useList("/v1/tasks", "tasks", { on: ["task"], limit: 1000 });
  const [edited, setEdited] = useState(null);
  const moved = useRef(null); // the task that is moving to another column, where it gets the focus
  const board = useRef(null);
  const move = useAction(async (task, status) => {
    moved.current = { id: task.id, status };
    try {
      await api.patch(at("/v1/tasks", task.id), { status }, here());
    } catch (error) {
      moved.current = null;
      throw error;
    }
    await reload();
  });
  useEffect(() => {
    const { id, status } = moved.current ?? {};
    if (!rows.some((task) => task.id === id && task.status === status)) return;
    board.current.querySelector(`[data-task="${id}"]`)?.focus();
    moved.current = null;
  });
  const moveTo = (task, status) => status && status !== task.status && move.run(task, status);
  const open = new Set(rows.filter((task) => task.status !== "completed").map((task) => task.id));
  return html`
    <${Page} title="Tasks" actions=${rows.length > 0 && html`<span class="muted">${count(open.size, "open task")}</span>`}>
      ${edited === null && html`<${NewTask} reload=${reload} />`}
      <${ErrorBox} error=${error ?? move.error} retry=${reload} />
      ${isLoading && html`<${Loading} />`}
      ${!isLoading &&
      !error &&
      !rows.length &&
      html`<${Empty} title="No tasks yet">Add one above. Agents share this board: they add tasks with the task tool, and claim the ones that are ready.<//>`}
      ${rows.length > 0 &&
      html`<div class="board" ref=${board}>
        ${COLUMNS.map(
          ([status, name]) => html`
            <${Column}
              key=${status}
              name=${name}
              status=${status}
              tasks=${inOrder(rows.filter((task) => task.status === status))}
              open=${open}
              moveTo=${moveTo}
              onDrop=${(id) => moveTo(rows.find((task) => String(task.id) === id) ?? {}, status)}
              onEdit=${setEdited}
            />
          `,
        )}
      </div>`}
      ${edited !== null && html`<${EditTask} task=${edited} reload=${reload} onClose=${() => setEdited(null)} />`}
    <//>
  `;
}

/** Open tasks by number, so that nothing jumps when one changes; completed ones with the newest first. */
function inOrder(tasks) {
  const isDone = tasks[0]?.status === "completed";
  return [...tasks].sort((one, other) => (isDone ? (other.updated < one.updated ? -1 : 1) : one.id - other.id));
}

function NewTask({ reload }) {
  const [title, setTitle] = useState("");
  const field = useRef(null);
  const add = useAction(async () => {
    await api.post("/v1/tasks", { title: title.trim() }, here());
    setTitle("");
    await reload();
  });
  const submit = async (event) => {
    event.preventDefault();
    if (title.trim()) await add.run();
    field.current?.focus(); // the form may have gone meanwhile
  };
  return html`
    <form class="row-form" onSubmit=${submit}>
      <${Field} label="Title" value=${title} onInput=${setTitle} inputRef=${field} maxlength="200" placeholder="What needs to be done" data-filter="" />
      <button type="submit" class="main" disabled=${add.isRunning}>Add</button>
    </form>
    <${ErrorBox} error=${add.error} />
  `;
}

function Column({ name, status, tasks, open, moveTo, onDrop, onEdit }) {
  const [limit, setLimit] = useState(SHOWN);
  const [isOver, setIsOver] = useState(false);
  const drop = (event) => {
    event.preventDefault();
    setIsOver(false);
    onDrop(event.dataTransfer.getData("text/plain"));
  };
  return html`
    <section
      class=${`column${isOver ? " over" : ""}`}
      aria-label=${name}
      onDragOver=${(event) => (event.preventDefault(), setIsOver(true))}
      onDragLeave=${(event) => event.currentTarget.contains(event.relatedTarget) || setIsOver(false)}
      onDrop=${drop}
    >
      <h2>${name} <span class="muted">${tasks.length}</span></h2>
      <ul>
        ${tasks.slice(0, limit).map(
          (task) => html`<li key=${task.id}><${Card} task=${task} status=${status} open=${open} moveTo=${moveTo} onEdit=${onEdit} /></li>`,
        )}
      </ul>
      ${!tasks.length && html`<p class="muted column-empty">No tasks</p>`}
      ${tasks.length > limit && html`<button type="button" onClick=${() => setLimit(limit + 200)}>Show more</button>`}
    </section>
  `;
}

function Card({ task, status, open, moveTo, onEdit }) {
  const index = COLUMNS.findIndex(([id]) => id === status);
  const [before, after] = [COLUMNS[index - 1], COLUMNS[index + 1]];
  const blockers = status === "completed" ? [] : task.blockedBy.filter((id) => open.has(id));
  const press = (event) => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const work = {
      ArrowRight: () => (event.shiftKey ? moveTo(task, after?.[0]) : step(event.currentTarget, 1, 0)),
      ArrowLeft: () => (event.shiftKey ? moveTo(task, before?.[0]) : step(event.currentTarget, -1, 0)),
      ArrowDown: () => step(event.currentTarget, 0, 1),
      ArrowUp: () => step(event.currentTarget, 0, -1),
      Enter: () => onEdit(task),
    }[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  };
  return html`
    <article
      class=${`task${blockers.length ? " blocked" : ""}`}
      data-task=${task.id}
      tabindex="0"
      draggable="true"
      aria-label=${`Task ${task.id}: ${oneLine(task.title)}`}
      onDragStart=${(event) => event.dataTransfer.setData("text/plain", String(task.id))}
      onKeyDown=${press}
    >
      <p class="task-title">${oneLine(task.title)}</p>
      ${task.description && html`<p class="muted task-text">${oneLine(task.description, 160)}</p>`}
      <p class="task-facts">
        <span class="muted">#${task.id}</span>
        ${blockers.length > 0 && html`<span class="tag warn">Blocked by ${blockers.map((id) => `#${id}`).join(", ")}</span>`}
        ${task.ready && html`<span class="tag good">Ready</span>`}
        ${task.owner && html`<span class="tag">${oneLine(task.owner, 40)}</span>`}
        <span class="muted"><${Time} at=${task.updated} /></span>
      </p>
      <div class="task-buttons">
        ${before && html`<button type="button" class="small" aria-label=${`Move to ${before[1]}`} onClick=${() => moveTo(task, before[0])}>←</button>`}
        ${after && html`<button type="button" class="small" aria-label=${`Move to ${after[1]}`} onClick=${() => moveTo(task, after[0])}>→</button>`}
        <button type="button" class="small" onClick=${() => onEdit(task)}>Edit</button>
      </div>
    </article>
  `;
}

/** Move the focus to a neighbour of a card. */
function step(card, across, down) {
  const column = card.closest(".column");
  const cardsOf = (element) => [...element.querySelectorAll(".task")];
  const index = cardsOf(column).indexOf(card);
  if (down) {
    cardsOf(column)[index + down]?.focus();
    return;
  }
  const columns = [...column.parentElement.children];
  for (let next = columns.indexOf(column) + across; columns[next]; next += across) {
    const cards = cardsOf(columns[next]);
    if (cards.length) {
      cards[Math.min(index, cards.length - 1)].focus();
      return;
    }
  }
}

function EditTask({ task, reload, onClose }) {
  const [fields, setFields] = useState({
    title: task.title,
    description: task.description,
    owner: task.owner,
    status: task.status,
    blockedBy: task.blockedBy.join(", "),
  });
  const set = (name) => (value) => setFields({ ...fields, [name]: value });
  const save = useAction(async () => {
    const numbers = fields.blockedBy.split(/[\s,#]+/).filter(Boolean).map(Number);
    const change = { ...fields, title: fields.title.trim(), blockedBy: numbers };
    if (numbers.some((number) => !Number.isSafeInteger(number))) {
      throw Object.assign(new Error("Blocked by must be a list of task numbers."), { suggestion: "Separate them with commas, such as 2, 5." });
    }
    if (change.status === task.status) delete change.status;
    if (change.owner === task.owner) delete change.owner;
    await api.patch(at("/v1/tasks", task.id), change, here());
    await reload();
    onClose();
  });
  const submit = (event) => {
    event.preventDefault();
    save.run();
  };
  return html`
    <${Dialog} title=${`Edit task ${task.id}`} onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <${Field} label="Title" value=${fields.title} onInput=${set("title")} maxlength="200" required />
        <${Field} label="Description" multiline value=${fields.description} onInput=${set("description")} maxlength="8000" />
        <${Field} label="Status" value=${fields.status} onInput=${set("status")} options=${COLUMNS} />
        <${Field} label="Owner" value=${fields.owner} onInput=${set("owner")} maxlength="100" />
        <${Field} label="Blocked by" value=${fields.blockedBy} onInput=${set("blockedBy")} hint="Numbers of the tasks to complete first" />
        <${ErrorBox} error=${save.error} />
        <div class="buttons">
          <button type="submit" class="main" disabled=${save.isRunning}>Save</button>
          <button type="button" onClick=${onClose}>Cancel</button>
        </div>
      </form>
    <//>
  `;
}
