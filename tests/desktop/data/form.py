"""A GTK program for the tests. It prints what happens to it as JSON lines, and takes commands on standard input."""

import json
import sys

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, GLib, Gtk  # noqa: E402


def say(**facts):
    print(json.dumps(facts), flush=True)


class Form:
    def __init__(self, title):
        self.windows = {}
        self.window = window = Gtk.Window(title=title)
        window.move(100, 60)
        window.set_default_size(420, 560)
        window.connect("key-press-event", lambda _, event: say(key=Gdk.keyval_name(event.keyval), state=int(event.state)))
        window.connect("destroy", Gtk.main_quit)
        column = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=6)
        window.add(column)
        column.add(self.menu_bar())
        row = Gtk.Box(spacing=6)
        self.entry = Gtk.Entry()
        label = Gtk.Label(label="Name")
        label.set_mnemonic_widget(self.entry)
        self.entry.connect("activate", lambda entry: say(entered=entry.get_text()))
        row.add(label)
        row.add(self.entry)
        column.add(row)
        buttons = Gtk.Box()
        for text in ("Save", "Cancel", "Delete"):
            button = Gtk.Button(label=text)
            button.connect("clicked", lambda button: say(clicked=button.get_label()))
            button.connect("button-press-event", lambda button, event: say(pressed=button.get_label(), button=event.button))
            buttons.add(button)
        column.add(buttons)
        self.scale = Gtk.Scale.new_with_range(Gtk.Orientation.HORIZONTAL, 0, 100, 1)
        self.scale.connect("button-press-event", lambda *_: say(scale="pressed"))
        self.scale.connect("button-release-event", lambda *_: say(scale="released"))
        column.add(self.scale)
        store = Gtk.ListStore(str, str)
        for number in range(1000):
            store.append([f"row {number}", f"value {number}"])
        table = Gtk.TreeView(model=store)
        for number, name in enumerate(("Key", "Value")):
            table.append_column(Gtk.TreeViewColumn(name, Gtk.CellRendererText(), text=number))
        table.connect("row-activated", lambda _, path, column: say(activated=path.get_indices()[0]))
        scrolled = Gtk.ScrolledWindow()
        scrolled.add(table)
        scrolled.get_vadjustment().connect("value-changed", lambda value: say(scrolled=value.get_value()))
        column.pack_start(scrolled, True, True, 0)
        window.show_all()

    def menu_bar(self):
        bar, top, menu = Gtk.MenuBar(), Gtk.MenuItem(label="File"), Gtk.Menu()
        for text in ("New", "Open"):
            item = Gtk.MenuItem(label=text)
            item.connect("activate", lambda item: say(chosen=item.get_label()))
            menu.append(item)
        top.set_submenu(menu)
        bar.append(top)
        return bar

    # --- commands ---------------------------------------------------------------------------------------------------

    def second(self, title="Second", x=560, y=100, width=260, height=200):
        window = Gtk.Window(title=title)
        window.move(x, y)
        window.set_default_size(width, height)
        column = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
        button = Gtk.Button(label=f"In {title}")
        button.connect("clicked", lambda button: say(clicked=button.get_label()))
        column.add(button)
        text = Gtk.TextView()
        text.get_buffer().connect("changed", lambda buffer: say(text=buffer.get_text(*buffer.get_bounds(), True)))
        column.pack_start(text, True, True, 0)
        window.add(column)
        window.show_all()
        self.windows[title] = window

    def popup(self, title="Popup", x=0, y=0, width=200, height=100):
        window = Gtk.Window(type=Gtk.WindowType.POPUP, title=title)
        window.move(x, y)
        window.resize(width, height)
        box = Gtk.EventBox()
        box.connect("button-press-event", lambda *_: say(pressed=title))
        window.add(box)
        window.show_all()
        self.windows[title] = window

    def close(self, title):
        self.windows.pop(title).destroy()

    def rename(self, title):
        self.window.set_title(title)

    def place(self, x, y):
        self.window.move(x, y)

    def reset(self):
        self.entry.set_text("")
        self.entry.grab_focus()
        self.scale.set_value(0)
        for title in list(self.windows):
            self.close(title)

    def focus_nothing(self):
        self.window.set_focus(None)

    def grab(self):
        seat = self.window.get_display().get_default_seat()
        status = seat.grab(self.window.get_window(), Gdk.SeatCapabilities.ALL, True, None, None, None)
        say(grab=int(status))

    def ungrab(self):
        self.window.get_display().get_default_seat().ungrab()

    def hang(self, seconds):
        import time

        time.sleep(seconds)

    def read(self, channel, _):
        line = channel.readline()
        if not line:
            Gtk.main_quit()
            return False
        command = json.loads(line)
        getattr(self, command.pop("do"))(**command)
        GLib.idle_add(lambda: say(done=True))
        return True


# the machine of the tests may be busy
Gtk.Settings.get_default().set_property("gtk-double-click-time", 10_000)
form = Form(sys.argv[1])
GLib.io_add_watch(GLib.IOChannel.unix_new(0), GLib.IO_IN | GLib.IO_HUP, form.read)
say(ready=True)
Gtk.main()
