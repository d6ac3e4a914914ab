/* SPDX-License-Identifier: Apache-2.0
 * Error handlers, classes, codes and texts; fatal errors. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/mpi/test/objects.h"

static void on_comm(MPI_Comm *comm, int *code, ...)
{
	va_list more;
	char name[MPI_MAX_OBJECT_NAME];
	int length;

	va_start(more, code);
	MPI_Comm_get_name(*comm, name, &length);
	say("handler: communicator %s, %d, %s", name, *code, va_arg(more, const char *));
	va_end(more);
}

static void on_win(MPI_Win *win, int *code, ...)
{
	say("handler: window %d, %d", *win != MPI_WIN_NULL, *code);
}

static void on_file(MPI_File *file, int *code, ...)
{
	say("handler: file %d, %d", *file != MPI_FILE_NULL, *code);
}

static MPI_Errhandler file_handler;

static void handlers(const char *when, MPI_Comm comm, MPI_Comm copy, MPI_File file)
{
	MPI_Errhandler got;

	say("%s", when);
	say("returned: %d", MPI_Send(NULL, 1, MPI_INT, 77, 0, comm));
	say("returned: %d", MPI_Send(NULL, 1, MPI_INT, 0, -5, copy));
	MPI_Comm_get_errhandler(comm, &got);
	say("user's: %d", got != MPI_ERRORS_RETURN && got != MPI_ERRORS_ARE_FATAL);
	MPI_Errhandler_free(&got);
	say("null now: %d", got == MPI_ERRHANDLER_NULL);
	say("called: %d", MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
	say("called: %d", MPI_File_call_errhandler(file, MPI_ERR_IO));
	MPI_File_get_errhandler(file, &got);
	say("file's: %d", got == file_handler);
	MPI_Errhandler_free(&got);
	say("open: %d", MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY,
				      MPI_INFO_NULL, &file));
}

static void codes(const char *when, int class, int code, int bare)
{
	char text[MPI_MAX_ERROR_STRING];
	int length, of;

	MPI_Error_string(class, text, &length);
	say("%s: class %d <%s> %d", when, class, text, length);
	MPI_Error_string(code, text, &length);
	MPI_Error_class(code, &of);
	say("%s: code %d <%s> of %d", when, code, text, of);
	MPI_Error_string(bare, text, &length);
	MPI_Error_class(bare, &of);
	say("%s: code %d <%s> of %d", when, bare, text, of);
}

static void add_codes(void)
{
	int class, code, bare, *last, flag, length;
	char text[MPI_MAX_ERROR_STRING];

	MPI_Add_error_class(&class);
	MPI_Add_error_code(class, &code);
	MPI_Add_error_code(MPI_ERR_IO, &bare);
	MPI_Add_error_string(class, "a class of ours");
	MPI_Add_error_string(code, "a code of ours");
	codes("new", class, code, bare);
	cycle();
	codes("after a cycle", class, code, bare);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
	say("last %d %d", flag, *last);
	say("errors: %d %d %d %d %d", MPI_Add_error_string(MPI_ERR_IO, "x"),
	    MPI_Add_error_code(500, &code), MPI_Error_class(500, &code),
	    MPI_Error_string(500, text, &length), MPI_Add_error_code(code, &bare));
	for (int i = 0; i <= MPI_ERR_LASTCODE; i += 7) {
		MPI_Error_string(i, text, &length);
		say("%d: %s", i, text);
	}
}

static MPI_File open_file(void)
{
	char path[] = "/tmp/objects.XXXXXX";
	MPI_File file;

	close(mkstemp(path));
	MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
		      &file);
	return file;
}

int test_errors(int argc, char **argv)
{
	MPI_Errhandler comm_handler, win_handler, got;
	MPI_Comm comm, copy;
	int memory[4];
	MPI_File file;
	MPI_Win win;

	(void)argc, (void)argv;
	MPI_Comm_create_errhandler(on_comm, &comm_handler);
	MPI_File_create_errhandler(on_file, &file_handler);
	MPI_Win_create_errhandler(on_win, &win_handler);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_name(comm, "the one");
	MPI_Comm_set_errhandler(comm, comm_handler);
	MPI_Errhandler_free(&comm_handler);
	MPI_Comm_dup(comm, &copy);
	MPI_Comm_set_name(copy, "its copy");
	MPI_File_get_errhandler(MPI_FILE_NULL, &got);
	say("files' own: %d", got == MPI_ERRORS_RETURN);
	MPI_File_set_errhandler(MPI_FILE_NULL, file_handler);
	file = open_file();
	handlers("new", comm, copy, file);
	cycle();
	handlers("after a cycle", comm, copy, file);
	MPI_File_close(&file);
	MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_get_errhandler(win, &got);
	say("windows' own: %d", got == MPI_ERRORS_ARE_FATAL);
	MPI_Win_set_errhandler(win, win_handler);
	say("window: %d", MPI_Win_call_errhandler(win, MPI_ERR_RMA_SYNC));
	MPI_Win_free(&win);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	say("another kind's: %d", MPI_Comm_set_errhandler(comm, win_handler));
	say("no object's: %d %d", MPI_Comm_set_errhandler(MPI_COMM_NULL, MPI_ERRORS_RETURN),
	    MPI_Win_set_errhandler(MPI_WIN_NULL, MPI_ERRORS_RETURN));
	add_codes();
	MPI_Comm_free(&copy);
	MPI_Comm_free(&comm);
	return 0;
}

int test_fatal(int argc, char **argv)
{
	MPI_File file;
	MPI_Win win;

	if (argc && !strcmp(argv[0], "win")) {
		MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		MPI_Win_set_name(win, "a window");
		MPI_Win_call_errhandler(win, MPI_ERR_RMA_SYNC);
	} else if (argc && !strcmp(argv[0], "file")) {
		MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
		MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
		MPI_File_call_errhandler(file, MPI_ERR_NO_SUCH_FILE);
	} else {
		MPI_Send(NULL, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
	}
	say("not reached");
	return 1;
}
